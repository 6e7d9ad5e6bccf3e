/** Chunks of a chat answer. Source: OpenAI's API reference, "The chat completion chunk object". */
import type { OutputParser } from "../../../chat/chat-contract.ts";
import type { TokenScore } from "../../../text-model/text-request.ts";
import type { EventWriter } from "../event-stream.ts";
import { chatLogProbs } from "../log-probs.ts";
import type { IndexedChunk } from "../open-generations.ts";
import { UsageSum } from "../usage.ts";
import { ChatChoice, type ChatFinish, type ChoiceDelta, type ChoiceStep, emptyCall } from "./chat-choice.ts";

export interface ChatEventOptions {
  /** Members of every chunk but `choices`, without the closing brace. */
  readonly head: string;
  readonly numChoices: number;
  readonly openParser: () => OutputParser;
  readonly callFinish: ChatFinish;
  /** Names of custom tools. */
  readonly custom: ReadonlySet<string>;
  readonly includesUsage: boolean;
  readonly usageInEach: boolean;
  readonly hasLogProbs: boolean;
  readonly includesReasoning: boolean;
  readonly countReasoning: (text: string) => number;
}

interface StreamedChoice {
  readonly choice: ChatChoice;
  /** An event of a text alone, in front of the text and behind it: most events are one. */
  readonly before: string;
  readonly after: string;
  /** Scores of tokens whose text is held back. */
  scores: TokenScore[];
  hasBegun: boolean;
}

export class ChatEvents implements EventWriter {
  readonly #options: ChatEventOptions;
  readonly #choices: readonly StreamedChoice[];
  readonly #usage: UsageSum;
  #reasoning = "";

  constructor(options: ChatEventOptions) {
    this.#options = options;
    this.#usage = new UsageSum(options.numChoices);
    const usage = options.includesUsage ? ',"usage":null' : "";
    this.#choices = Array.from({ length: options.numChoices }, (_, index) => ({
      choice: new ChatChoice(options.openParser(), options.callFinish, options.custom),
      before: flat(`data: ${options.head},"choices":[{"index":${index},"delta":{"content":`),
      after: flat(`},"logprobs":null,"finish_reason":null}]${usage}}\n\n`),
      scores: [],
      hasBegun: false,
    }));
  }

  chunk({ index, chunk }: IndexedChunk): string {
    const streamed = this.#choices[index];
    if (streamed === undefined) return "";
    const step = streamed.choice.read(chunk);
    if (this.#options.hasLogProbs) streamed.scores.push(...chunk.scores);
    if (chunk.finish !== undefined || this.#options.usageInEach) this.#usage.set(index, chunk.usage);
    return this.#begin(streamed, index) + this.#deltas(streamed, index, step) + this.#finish(streamed, index, step);
  }

  end(): string {
    if (!this.#options.includesUsage) return "";
    const usage = this.#usage.value(this.#options.countReasoning(this.#reasoning)) ?? null;
    return `data: ${this.#options.head},"choices":[],"usage":${JSON.stringify(usage)}}\n\n`;
  }

  #begin(streamed: StreamedChoice, index: number): string {
    if (streamed.hasBegun) return "";
    streamed.hasBegun = true;
    return this.#event(index, '{"role":"assistant","content":""}', "null", "null");
  }

  #deltas(streamed: StreamedChoice, index: number, { deltas }: ChoiceStep): string {
    let events = "";
    for (const delta of deltas) {
      if (delta.type === "text" && streamed.scores.length === 0 && !this.#options.usageInEach) {
        events += streamed.before + JSON.stringify(delta.text) + streamed.after;
        continue;
      }
      const text = this.#delta(delta);
      if (text === "") continue;
      events += this.#event(index, text, this.#takeScores(streamed), "null");
    }
    return events;
  }

  #finish(streamed: StreamedChoice, index: number, { finish }: ChoiceStep): string {
    return finish === undefined ? "" : this.#event(index, "{}", this.#takeScores(streamed), `"${finish}"`);
  }

  #takeScores(streamed: StreamedChoice): string {
    if (streamed.scores.length === 0) return "null";
    const { scores } = streamed;
    streamed.scores = [];
    return JSON.stringify(chatLogProbs(scores));
  }

  #delta(delta: ChoiceDelta): string {
    switch (delta.type) {
      case "text":
        return `{"content":${JSON.stringify(delta.text)}}`;
      case "reasoning":
        this.#reasoning += delta.text;
        return this.#options.includesReasoning ? `{"reasoning_content":${JSON.stringify(delta.text)}}` : "";
      case "tool-call-start": {
        const { index, id, name, isCustom } = delta;
        return JSON.stringify({ tool_calls: [{ index, ...emptyCall(id, name, isCustom === true) }] });
      }
      case "tool-call-arguments": {
        const { index, text } = delta;
        const part = delta.isCustom === true ? { custom: { input: text } } : { function: { arguments: text } };
        return JSON.stringify({ tool_calls: [{ index, ...part }] });
      }
      case "tool-call-end":
        return "";
    }
  }

  #event(index: number, delta: string, logProbs: string, finish: string): string {
    const choice = `{"index":${index},"delta":${delta},"logprobs":${logProbs},"finish_reason":${finish}}`;
    return `data: ${this.#options.head},"choices":[${choice}]${this.#usageMember()}}\n\n`;
  }

  #usageMember(): string {
    if (!this.#options.includesUsage) return "";
    if (!this.#options.usageInEach) return ',"usage":null';
    return `,"usage":${JSON.stringify(this.#usage.value() ?? null)}`;
  }
}

/** One piece of memory: a text that was put together is walked anew with each event that it becomes part of. */
function flat(text: string): string {
  return Buffer.from(text).toString();
}
