/** How the body of a call is read: the contract between the parser of an answer and the forms of calls. */
import type { ChatTool, OutputDelta } from "../chat-contract.ts";
import type { TextCursor } from "./text-cursor.ts";

/** "done": the mark at the end is taken; "failed": this is no call, what was taken is text. */
export type ReadState = "more" | "done" | "failed";

export interface CallReader {
  /** Takes text behind the mark that opened it, and adds the deltas that it completes. */
  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState;
}

/** Numbers calls and begins their deltas. */
export class CallSink {
  readonly #tools: ReadonlyMap<string, ChatTool>;
  readonly #newId: () => string;
  #numCalls = 0;
  #isOpen = false;

  constructor(tools: readonly ChatTool[], newId: () => string) {
    this.#tools = new Map(tools.map((tool) => [tool.function.name, tool]));
    this.#newId = newId;
  }

  get numCalls(): number {
    return this.#numCalls;
  }

  start(name: string, deltas: OutputDelta[]): void {
    deltas.push({ type: "tool-call-start", index: this.#numCalls, id: this.#newId(), name });
    this.#numCalls += 1;
    this.#isOpen = true;
  }

  addArguments(text: string, deltas: OutputDelta[]): void {
    if (text !== "") deltas.push({ type: "tool-call-arguments", index: this.#numCalls - 1, text });
  }

  /** Nothing when no call is open. */
  end(deltas: OutputDelta[]): void {
    if (this.#isOpen) deltas.push({ type: "tool-call-end", index: this.#numCalls - 1 });
    this.#isOpen = false;
  }

  /** JSON schema of one argument; undefined: not known. */
  schemaOf(tool: string, argument: string): unknown {
    const properties = this.#tools.get(tool)?.function.parameters?.properties;
    if (typeof properties !== "object" || properties === null) return undefined;
    return (properties as Readonly<Record<string, unknown>>)[argument];
  }
}
