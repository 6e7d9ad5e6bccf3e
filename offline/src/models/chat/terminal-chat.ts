/** A chat in a terminal: reads messages, streams answers, ends with control-D or /bye. */
import { ToolError } from "@nereid/server/files/tool-error";
import type { ChatPart } from "./chat-client.ts";
import { type ChatSession, speedText } from "./chat-session.ts";
import { withImages } from "./image-paths.ts";
import { MessageLines } from "./message-lines.ts";
import { isCommand, runCommand } from "./slash-commands.ts";
import { TerminalLines } from "./terminal-lines.ts";

export interface Terminal {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly historyFile: string;
}

const PROMPT = ">>> ";
const MORE = "... ";
const DIM = "\x1b[2m";
const PLAIN = "\x1b[0m";

/** Resolves when the user ends it. */
export async function chatInTerminal(session: ChatSession, terminal: Terminal): Promise<void> {
  const chat = new TerminalChat(session, terminal);
  await chat.run();
}

class TerminalChat {
  readonly #session: ChatSession;
  readonly #output: NodeJS.WritableStream;
  readonly #lines: TerminalLines;
  readonly #message = new MessageLines();
  /** Stops the answer that is coming; undefined between answers. */
  #answering: AbortController | undefined;

  constructor(session: ChatSession, { input, output, historyFile }: Terminal) {
    this.#session = session;
    this.#output = output;
    this.#lines = new TerminalLines({ input, output, historyFile, onInterrupt: () => this.#interrupt() });
  }

  async run(): Promise<void> {
    using lines = this.#lines;
    for (;;) {
      const line = await lines.next(this.#message.isOpen ? MORE : PROMPT);
      if (line === undefined) break;
      const message = this.#message.push(line);
      if (message === undefined || message.trim() === "") continue;
      if (!isCommand(message)) await this.#answer(message);
      else if (this.#command(message)) return;
    }
    this.#output.write("\n");
  }

  /** True: the chat is over. */
  #command(message: string): boolean {
    const { text, ends } = runCommand(this.#session, message.trim());
    if (text !== "") this.#output.write(`${text}\n`);
    return ends;
  }

  async #answer(message: string): Promise<void> {
    this.#answering = new AbortController();
    const writer = new PartWriter(this.#output);
    try {
      const { speed, finishReason } = await this.#session.ask(
        await withImages(message),
        this.#answering.signal,
        (part) => writer.write(part),
      );
      writer.end();
      if (finishReason === "length") this.#note("The answer was cut: the context or max_tokens is used up.");
      if (finishReason === "cancelled") this.#note("Stopped.");
      if (speed !== undefined && this.#session.settings.isVerbose) this.#note(speedText(speed));
    } catch (error) {
      writer.end();
      if (!(error instanceof ToolError)) throw error;
      this.#output.write(`Error: ${error.message}\n${error.fix === undefined ? "" : `${error.fix}.\n`}`);
    } finally {
      this.#answering = undefined;
    }
  }

  #note(text: string): void {
    this.#output.write(`${DIM}${text}${PLAIN}\n`);
  }

  #interrupt(): void {
    if (this.#answering !== undefined) {
      this.#answering.abort(new Error("stopped by the user"));
      return;
    }
    this.#message.clear();
    this.#output.write("\nControl-D or /bye ends the chat.\n");
    this.#lines.restart(PROMPT);
  }
}

/** Reasoning is dim, and apart from the answer. */
class PartWriter {
  readonly #output: NodeJS.WritableStream;
  #last: ChatPart["kind"] | undefined;
  #endsLine = true;

  constructor(output: NodeJS.WritableStream) {
    this.#output = output;
  }

  write({ kind, text }: ChatPart): void {
    if (kind !== this.#last) this.#switchTo(kind);
    const shown = this.#last === undefined && kind === "text" ? text.trimStart() : text;
    if (shown === "") return;
    this.#last = kind;
    this.#output.write(shown);
    this.#endsLine = shown.endsWith("\n");
  }

  end(): void {
    if (this.#last === "reasoning") this.#output.write(PLAIN);
    if (!this.#endsLine) this.#output.write("\n");
  }

  #switchTo(kind: ChatPart["kind"]): void {
    if (kind === "reasoning") this.#output.write(DIM);
    else if (this.#last === "reasoning") this.#output.write(`${PLAIN}${this.#endsLine ? "" : "\n"}\n`);
  }
}
