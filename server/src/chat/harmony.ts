/**
 * Parses answers of gpt-oss: messages with a channel each. `analysis` is reasoning, `final` and a `commentary` without recipient are
 * text, a message to `functions.f` is a call. Source: OpenAI's "harmony response format".
 */
import type { ChatTool, OutputDelta, OutputParser } from "./chat-contract.ts";
import { newCallId } from "./tools/call-id.ts";
import { CallSink } from "./tools/call-reader.ts";
import { TextCursor } from "./tools/text-cursor.ts";

const HEAD_END = "<|message|>";
const BODY_ENDS = ["<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"];
const RECIPIENT = /to=functions\.([\w.-]+)/;
const CHANNEL = /<\|channel\|>\s*(\w+)/;

type Body = "reasoning" | "text" | "call";

export class HarmonyParser implements OutputParser {
  readonly #sink: CallSink;
  readonly #cursor = new TextCursor();
  /** Undefined: inside the head of a message. */
  #body: Body | undefined;

  constructor(tools: readonly ChatTool[]) {
    this.#sink = new CallSink(tools, () => newCallId());
  }

  push(text: string): readonly OutputDelta[] {
    this.#cursor.append(text);
    return this.#advance();
  }

  end(): readonly OutputDelta[] {
    this.#cursor.end();
    const deltas = [...this.#advance()];
    this.#sink.end(deltas);
    return deltas;
  }

  #advance(): readonly OutputDelta[] {
    const deltas: OutputDelta[] = [];
    while (this.#body === undefined ? this.#readHead(deltas) : this.#readBody(this.#body, deltas)) {
      // One part of a message a turn.
    }
    return deltas;
  }

  #readHead(deltas: OutputDelta[]): boolean {
    const head = this.#cursor.takeUntil(HEAD_END);
    if (head === undefined) return this.#endHead(deltas);
    const recipient = RECIPIENT.exec(head)?.[1];
    if (recipient !== undefined) {
      this.#sink.start(recipient, deltas);
      this.#body = "call";
    } else this.#body = CHANNEL.exec(head)?.[1] === "analysis" ? "reasoning" : "text";
    return true;
  }

  /** An answer without any mark is text. */
  #endHead(deltas: OutputDelta[]): boolean {
    const { rest, isEnded } = this.#cursor;
    if (isEnded && !rest.includes("<|")) pushText(this.#cursor.takeAll(), "text", deltas);
    return false;
  }

  #readBody(body: Body, deltas: OutputDelta[]): boolean {
    const { rest } = this.#cursor;
    const found = BODY_ENDS.map((mark) => rest.indexOf(mark)).filter((at) => at >= 0);
    const isWhole = found.length > 0;
    const text = this.#cursor.take(isWhole ? Math.min(...found) : this.#cursor.numSafe(BODY_ENDS));
    if (body === "call") this.#sink.addArguments(text, deltas);
    else pushText(text, body, deltas);
    if (!isWhole) return false;
    if (body === "call") this.#sink.end(deltas);
    this.#skipEnd();
    this.#body = undefined;
    return true;
  }

  /** `<|start|>` and `<|channel|>` begin the next head. */
  #skipEnd(): void {
    for (const mark of ["<|end|>", "<|call|>", "<|return|>"]) this.#cursor.skip(mark);
  }
}

function pushText(text: string, type: "text" | "reasoning", deltas: OutputDelta[]): void {
  if (text !== "") deltas.push({ type, text });
}
