/** A generation whose tokens are counted, however it ends. */
import type { TakeChunk, TextChunk, TextGeneration, TextUsage, TokenMeter } from "./text-request.ts";

export class MeteredGeneration implements TextGeneration {
  readonly #generation: TextGeneration;
  readonly #settle: (usage: TextUsage) => void;
  #usage: TextUsage = { promptTokens: 0, outputTokens: 0, cachedTokens: 0 };

  /** @throws when the meter does not grant that many tokens */
  constructor(generation: TextGeneration, meter: TokenMeter, maxTokens: number) {
    this.#generation = generation;
    const lease = meter.reserve(maxTokens);
    this.#settle = (usage) => lease.settle(usage);
  }

  async next(): Promise<TextChunk | undefined> {
    try {
      const chunk = await this.#generation.next();
      if (chunk === undefined) this.#settle(this.#usage);
      else this.#count(chunk);
      return chunk;
    } catch (error) {
      this.#settle(this.#usage);
      throw error;
    }
  }

  async deliver(take: TakeChunk): Promise<void> {
    try {
      await this.#generation.deliver((chunk) => {
        this.#count(chunk);
        return take(chunk);
      });
    } finally {
      this.#settle(this.#usage);
    }
  }

  async return(): Promise<void> {
    this.#settle(this.#usage);
    await this.#generation.return();
  }

  #count({ usage, finish }: TextChunk): void {
    this.#usage = usage;
    if (finish !== undefined) this.#settle(usage);
  }
}
