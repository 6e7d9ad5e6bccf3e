/**
 * One choice of a chat answer: the deltas of its text, and all of them together.
 * Source: OpenAI's API reference, "The chat completion object".
 */
import type { OutputDelta, OutputParser } from "../../../chat/chat-contract.ts";
import type { FinishReason, TextChunk, TokenScore } from "../../../text-model/text-request.ts";

export type ChatFinish = FinishReason | "tool_calls";

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

/** The addition of a chunk to a choice. */
export interface ChoiceStep {
  readonly deltas: readonly OutputDelta[];
  readonly finish: ChatFinish | undefined;
}

export class ChatChoice {
  readonly #parser: OutputParser;
  readonly #callFinish: ChatFinish;
  #hasCalls = false;

  /** `callFinish`: why an answer with calls ends. */
  constructor(parser: OutputParser, callFinish: ChatFinish = "tool_calls") {
    this.#parser = parser;
    this.#callFinish = callFinish;
  }

  read({ text, finish }: TextChunk): ChoiceStep {
    const deltas = this.#parser.push(text);
    const all = finish === undefined ? deltas : [...deltas, ...this.#parser.end()];
    if (!this.#hasCalls) this.#hasCalls = all.some(({ type }) => type === "tool-call-start");
    const isCall = this.#hasCalls && finish === "stop";
    return { deltas: all, finish: isCall ? this.#callFinish : finish };
  }
}

/** The whole of a choice, for an answer that is not streamed. */
export class WholeChoice {
  readonly calls: ToolCall[] = [];
  readonly scores: TokenScore[] = [];
  content = "";
  reasoning = "";
  finish: ChatFinish = "stop";

  add({ deltas, finish }: ChoiceStep, scores: readonly TokenScore[]): void {
    for (const delta of deltas) this.#add(delta);
    for (const score of scores) this.scores.push(score);
    if (finish !== undefined) this.finish = finish;
  }

  #add(delta: OutputDelta): void {
    switch (delta.type) {
      case "text":
        this.content += delta.text;
        break;
      case "reasoning":
        this.reasoning += delta.text;
        break;
      case "tool-call-start":
        this.calls[delta.index] = { id: delta.id, type: "function", function: { name: delta.name, arguments: "" } };
        break;
      case "tool-call-arguments": {
        const call = this.calls[delta.index];
        if (call !== undefined) call.function.arguments += delta.text;
        break;
      }
      case "tool-call-end":
        break;
    }
  }
}
