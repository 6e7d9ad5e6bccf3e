/** Chunks of a completion. Source: OpenAI's API reference, "The completion object" (streams have the same form). */
import type { TokenScore } from "../../../text-model/text-request.ts";
import type { EventWriter } from "../event-stream.ts";
import { completionLogProbs } from "../log-probs.ts";
import type { IndexedChunk } from "../open-generations.ts";
import { UsageSum } from "../usage.ts";

export interface CompletionEventOptions {
  /** Members of every chunk but `choices`, without the closing brace. */
  readonly head: string;
  readonly numChoices: number;
  /** Text of each prompt, when it is to be given back. */
  readonly prompts: readonly string[];
  /** No new text: only the prompt is wanted. */
  readonly isPromptOnly: boolean;
  readonly includesUsage: boolean;
  readonly usageInEach: boolean;
  readonly hasLogProbs: boolean;
}

export class CompletionEvents implements EventWriter {
  readonly #options: CompletionEventOptions;
  readonly #usage: UsageSum;
  readonly #begun = new Set<number>();
  /** Characters of each choice that were sent, for the offsets of tokens. */
  readonly #offsets = new Map<number, number>();

  constructor(options: CompletionEventOptions) {
    this.#options = options;
    this.#usage = new UsageSum(options.numChoices);
  }

  chunk({ index, chunk }: IndexedChunk): string {
    const { isPromptOnly, hasLogProbs, usageInEach } = this.#options;
    if (chunk.finish !== undefined || usageInEach) {
      this.#usage.set(index, isPromptOnly ? { ...chunk.usage, outputTokens: 0 } : chunk.usage);
    }
    const prompt = this.#promptOf(index);
    const text = prompt + (isPromptOnly ? "" : chunk.text);
    const scores = [...(chunk.promptScores ?? []), ...(isPromptOnly ? [] : chunk.scores)];
    if (text === "" && scores.length === 0 && chunk.finish === undefined) return "";
    const logProbs = hasLogProbs ? this.#logProbs(index, scores) : "null";
    const finish = chunk.finish === undefined ? "null" : `"${chunk.finish}"`;
    const choice = `{"index":${index},"text":${JSON.stringify(text)},"logprobs":${logProbs},"finish_reason":${finish}}`;
    return `data: ${this.#options.head},"choices":[${choice}]${this.#usageMember()}}\n\n`;
  }

  end(): string {
    if (!this.#options.includesUsage) return "";
    return `data: ${this.#options.head},"choices":[],"usage":${JSON.stringify(this.#usage.value() ?? null)}}\n\n`;
  }

  #promptOf(index: number): string {
    if (this.#begun.has(index)) return "";
    this.#begun.add(index);
    return this.#options.prompts[Math.floor(index / this.#options.numChoices)] ?? "";
  }

  #logProbs(index: number, scores: readonly TokenScore[]): string {
    const offset = this.#offsets.get(index) ?? 0;
    this.#offsets.set(index, offset + scores.reduce((sum, { text }) => sum + text.length, 0));
    return JSON.stringify(completionLogProbs(scores, offset));
  }

  #usageMember(): string {
    if (!this.#options.includesUsage) return "";
    return this.#options.usageInEach ? `,"usage":${JSON.stringify(this.#usage.value() ?? null)}` : ',"usage":null';
  }
}
