/**
 * Ends reasoning that takes more tokens than it may: the closing mark is written for the model, which goes on from there.
 * Source: Muennighoff et al., "s1: Simple test-time scaling" (2025), budget forcing.
 */
import type { TextModel } from "./text-model.ts";
import type { CallFacts, TakeChunk, TextChunk, TextGeneration, TextRequest, TextUsage } from "./text-request.ts";

/** Whatever starts generations: a model, or a model within a budget. */
export type Generator = Pick<TextModel, "generate">;

export interface ReasoningBudget {
  readonly maxTokens: number;
  readonly open: string;
  readonly close: string;
  /** The prompt ends inside the reasoning. */
  readonly isOpen: boolean;
  /** Text of the prompt. */
  readonly prompt: string;
  /** Form of the rest behind this prompt, which ends behind the reasoning. */
  guideAfter(prompt: string): TextRequest["guide"];
}

export class BudgetedModel implements Generator {
  readonly #model: Generator;
  readonly #budget: ReasoningBudget;

  constructor(model: Generator, budget: ReasoningBudget) {
    this.#model = model;
    this.#budget = budget;
  }

  async generate(request: TextRequest, call: CallFacts): Promise<TextGeneration> {
    const first = await this.#model.generate(request, call);
    return new BudgetedGeneration(first, this.#budget, (text, numTokens) => {
      const prompt = this.#budget.prompt + text;
      const maxTokens = request.maxTokens === undefined ? undefined : Math.max(1, request.maxTokens - numTokens);
      const rest = { ...request, prompt: { text: prompt }, maxTokens, guide: this.#budget.guideAfter(prompt) };
      return this.#model.generate(rest, call);
    });
  }
}

/** `settled`: the reasoning is over, or there is none. */
type State = "start" | "inside" | "settled";

class BudgetedGeneration implements TextGeneration {
  readonly #budget: ReasoningBudget;
  readonly #continueFrom: (text: string, numTokens: number) => Promise<TextGeneration>;
  #current: TextGeneration;
  #state: State;
  #text = "";
  #numChunks = 0;
  /** Counts of the part that was cut off. */
  #before: TextUsage | undefined;

  constructor(
    first: TextGeneration,
    budget: ReasoningBudget,
    continueFrom: (text: string, numTokens: number) => Promise<TextGeneration>,
  ) {
    this.#current = first;
    this.#budget = budget;
    this.#continueFrom = continueFrom;
    this.#state = budget.isOpen ? "inside" : "start";
  }

  async next(): Promise<TextChunk | undefined> {
    const chunk = await this.#current.next();
    if (chunk === undefined || this.#state === "settled") return chunk && this.#counted(chunk);
    this.#text += chunk.text;
    this.#numChunks += 1;
    this.#state = this.#stateNow();
    const numTokens = chunk.usage.outputTokens ?? this.#numChunks;
    const isCut = this.#state === "inside" && numTokens >= this.#budget.maxTokens && chunk.finish === undefined;
    return isCut ? this.#cut(chunk, numTokens) : chunk;
  }

  async deliver(take: TakeChunk): Promise<void> {
    while (this.#state !== "settled") {
      const chunk = await this.next();
      if (chunk === undefined) return;
      await take(chunk);
      if (chunk.finish !== undefined) return;
    }
    await this.#current.deliver((chunk) => take(this.#counted(chunk)));
  }

  return(): Promise<void> {
    return this.#current.return();
  }

  #stateNow(): State {
    const { open, close } = this.#budget;
    if (this.#state === "inside") return this.#text.includes(close) ? "settled" : "inside";
    const start = this.#text.trimStart();
    if (start.startsWith(open.trim())) return this.#text.includes(close) ? "settled" : "inside";
    return open.startsWith(start) ? "start" : "settled";
  }

  async #cut(chunk: TextChunk, numTokens: number): Promise<TextChunk> {
    await this.#current.return();
    this.#state = "settled";
    this.#before = chunk.usage;
    const closing = `\n${this.#budget.close}\n\n`;
    this.#current = await this.#continueFrom(this.#text + closing, numTokens);
    return { ...chunk, text: chunk.text + closing };
  }

  #counted(chunk: TextChunk): TextChunk {
    const before = this.#before;
    if (before === undefined) return chunk;
    const { outputTokens } = chunk.usage;
    const isKnown = outputTokens !== undefined && before.outputTokens !== undefined;
    const sum = isKnown ? outputTokens + (before.outputTokens ?? 0) : undefined;
    return { ...chunk, promptScores: undefined, usage: { ...before, outputTokens: sum } };
  }
}
