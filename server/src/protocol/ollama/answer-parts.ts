/**
 * Parts of an answer: text, thinking, and whole calls, since Ollama sends arguments as objects.
 * Source: Ollama's API reference, "Chat request (streaming, with tools)".
 */
import type { OutputDelta, OutputParser } from "../../chat/chat-contract.ts";
import type { TextChunk } from "../../text-model/text-request.ts";
import { isObject, type JsonObject } from "../api/schema.ts";
import { ChatChoice } from "../openai/chat/chat-choice.ts";

export interface OllamaToolCall {
  readonly id: string;
  readonly function: { readonly index: number; readonly name: string; readonly arguments: JsonObject };
}

export interface AnswerPart {
  readonly content: string;
  readonly thinking: string;
  readonly calls: readonly OllamaToolCall[];
}

interface OpenCall {
  readonly id: string;
  readonly name: string;
  text: string;
}

export const NO_PART: AnswerPart = { content: "", thinking: "", calls: [] };

export function isEmpty({ content, thinking, calls }: AnswerPart): boolean {
  return content === "" && thinking === "" && calls.length === 0;
}

export function joined(a: AnswerPart, b: AnswerPart): AnswerPart {
  return { content: a.content + b.content, thinking: a.thinking + b.thinking, calls: [...a.calls, ...b.calls] };
}

export class AnswerParts {
  readonly #choice: ChatChoice;
  readonly #showsThinking: boolean;
  readonly #open = new Map<number, OpenCall>();

  constructor(parser: OutputParser, showsThinking: boolean) {
    this.#choice = new ChatChoice(parser);
    this.#showsThinking = showsThinking;
  }

  read(chunk: TextChunk): AnswerPart {
    const { deltas, finish } = this.#choice.read(chunk);
    let content = "";
    let thinking = "";
    const calls: OllamaToolCall[] = [];
    for (const delta of deltas) {
      if (delta.type === "text") content += delta.text;
      else if (delta.type === "reasoning") thinking += this.#showsThinking ? delta.text : "";
      else calls.push(...this.#readCall(delta));
    }
    if (finish !== undefined) calls.push(...[...this.#open.keys()].flatMap((index) => this.#close(index)));
    return { content, thinking, calls };
  }

  #readCall(delta: OutputDelta): readonly OllamaToolCall[] {
    switch (delta.type) {
      case "tool-call-start":
        this.#open.set(delta.index, { id: delta.id, name: delta.name, text: "" });
        return [];
      case "tool-call-arguments": {
        const call = this.#open.get(delta.index);
        if (call !== undefined) call.text += delta.text;
        return [];
      }
      case "tool-call-end":
        return this.#close(delta.index);
      default:
        return [];
    }
  }

  #close(index: number): readonly OllamaToolCall[] {
    const call = this.#open.get(index);
    if (call === undefined) return [];
    this.#open.delete(index);
    return [{ id: call.id, function: { index, name: call.name, arguments: argumentsOf(call.text) } }];
  }
}

/** Arguments that the token limit cut off are no JSON: their call is shown, without them. */
function argumentsOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
