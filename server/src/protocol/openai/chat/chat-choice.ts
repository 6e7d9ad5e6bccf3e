/**
 * One choice of a chat answer: the deltas of its text, and all of them together.
 * Source: OpenAI's API reference, "The chat completion object".
 */
import type { OutputDelta, OutputParser } from "../../../chat/chat-contract.ts";
import type { FinishReason, TextChunk, TokenScore } from "../../../text-model/text-request.ts";
import { CustomInput } from "../custom-input.ts";

export type ChatFinish = FinishReason | "tool_calls";

export type ToolCall =
  | { readonly id: string; readonly type: "function"; readonly function: { readonly name: string; arguments: string } }
  | { readonly id: string; readonly type: "custom"; readonly custom: { readonly name: string; input: string } };

/** Arguments of a custom tool's call are its input. */
export type ChoiceDelta = OutputDelta & { readonly isCustom?: boolean };

/** The addition of a chunk to a choice. */
export interface ChoiceStep {
  readonly deltas: readonly ChoiceDelta[];
  readonly finish: ChatFinish | undefined;
}

export class ChatChoice {
  readonly #parser: OutputParser;
  readonly #callFinish: ChatFinish;
  readonly #custom: ReadonlySet<string>;
  #hasCalls = false;
  /** That of the call that is open, if it is a custom tool's. */
  #input: CustomInput | undefined;

  /** `callFinish`: why an answer with calls ends. `custom`: names of tools whose calls have an input. */
  constructor(parser: OutputParser, callFinish: ChatFinish = "tool_calls", custom: ReadonlySet<string> = new Set()) {
    this.#parser = parser;
    this.#callFinish = callFinish;
    this.#custom = custom;
  }

  read({ text, finish }: TextChunk): ChoiceStep {
    const deltas = this.#parser.push(text);
    const all = finish === undefined ? deltas : [...deltas, ...this.#parser.end()];
    if (!this.#hasCalls) this.#hasCalls = all.some(({ type }) => type === "tool-call-start");
    const isCall = this.#hasCalls && finish === "stop";
    const read = this.#custom.size === 0 ? all : all.flatMap((delta) => this.#customDelta(delta));
    return { deltas: read, finish: isCall ? this.#callFinish : finish };
  }

  #customDelta(delta: OutputDelta): readonly ChoiceDelta[] {
    if (delta.type === "tool-call-start") {
      this.#input = this.#custom.has(delta.name) ? new CustomInput() : undefined;
    }
    if (this.#input === undefined) return [delta];
    switch (delta.type) {
      case "tool-call-start":
        return [{ ...delta, isCustom: true }];
      case "tool-call-arguments":
        return inputDelta(delta.index, this.#input.push(delta.text));
      case "tool-call-end": {
        const rest = inputDelta(delta.index, this.#input.end());
        this.#input = undefined;
        return [...rest, delta];
      }
      default:
        return [delta];
    }
  }
}

function inputDelta(index: number, text: string): readonly ChoiceDelta[] {
  return text === "" ? [] : [{ type: "tool-call-arguments", index, text, isCustom: true }];
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

  #add(delta: ChoiceDelta): void {
    switch (delta.type) {
      case "text":
        this.content += delta.text;
        break;
      case "reasoning":
        this.reasoning += delta.text;
        break;
      case "tool-call-start":
        this.calls[delta.index] = emptyCall(delta.id, delta.name, delta.isCustom === true);
        break;
      case "tool-call-arguments": {
        const call = this.calls[delta.index];
        if (call?.type === "function") call.function.arguments += delta.text;
        else if (call !== undefined) call.custom.input += delta.text;
        break;
      }
      case "tool-call-end":
        break;
    }
  }
}

export function emptyCall(id: string, name: string, isCustom: boolean): ToolCall {
  return isCustom
    ? { id, type: "custom", custom: { name, input: "" } }
    : { id, type: "function", function: { name, arguments: "" } };
}
