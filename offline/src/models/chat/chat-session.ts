/** One conversation: its messages and settings, and the answers of a server. Knows no terminal. */
import { type ChatAnswer, type ChatMessage, type ChatPart, type ChatServer, chat } from "./chat-client.ts";
import type { ChatSettings } from "./chat-settings.ts";

export interface AnswerSpeed {
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** From the question to the first part. */
  readonly firstPartMs: number;
  readonly totalMs: number;
}

export interface SessionAnswer extends ChatAnswer {
  readonly speed: AnswerSpeed | undefined;
}

export class ChatSession {
  readonly server: ChatServer;
  settings: ChatSettings;
  #messages: ChatMessage[] = [];

  constructor(server: ChatServer, settings: ChatSettings) {
    this.server = server;
    this.settings = settings;
  }

  /** Without the system message. */
  get messages(): readonly ChatMessage[] {
    return this.#messages;
  }

  clear(): void {
    this.#messages = [];
  }

  /**
   * Asks and remembers. An answer that the signal stopped is remembered as far as it came; a question that failed is
   * not. @throws ToolError with the server's message
   */
  async ask(
    question: ChatMessage["content"],
    signal: AbortSignal,
    onPart: (part: ChatPart) => void,
  ): Promise<SessionAnswer> {
    const { system, sampling } = this.settings;
    const asked: ChatMessage = { role: "user", content: question };
    const before: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    const startMs = performance.now();
    let firstPartMs: number | undefined;
    let text = "";
    const listen = (part: ChatPart): void => {
      firstPartMs ??= performance.now() - startMs;
      if (part.kind === "text") text += part.text;
      onPart(part);
    };
    try {
      const messages = [...before, ...this.#messages, asked];
      const answer = await chat(this.server, { messages, sampling, signal, onPart: listen });
      this.#remember(asked, answer.text);
      return { ...answer, speed: speedOf(answer, firstPartMs, performance.now() - startMs) };
    } catch (error) {
      if (!signal.aborted) throw error;
      if (text !== "") this.#remember(asked, text);
      return { text, usage: undefined, finishReason: "cancelled", speed: undefined };
    }
  }

  #remember(asked: ChatMessage, content: string): void {
    this.#messages = [...this.#messages, asked, { role: "assistant", content }];
  }
}

export function speedText({ promptTokens, outputTokens, firstPartMs, totalMs }: AnswerSpeed): string {
  const seconds = Math.max(totalMs - firstPartMs, 1) / 1000;
  const rate = outputTokens < 2 ? "" : `, ${((outputTokens - 1) / seconds).toFixed(1)} tokens/s`;
  const first = `first token after ${(firstPartMs / 1000).toFixed(2)} s`;
  return `${promptTokens} tokens in, ${outputTokens} out${rate}, ${first}, ${(totalMs / 1000).toFixed(2)} s in all`;
}

function speedOf({ usage }: ChatAnswer, firstPartMs: number | undefined, totalMs: number): AnswerSpeed | undefined {
  return usage === undefined ? undefined : { ...usage, firstPartMs: firstPartMs ?? totalMs, totalMs };
}
