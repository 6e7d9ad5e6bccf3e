/**
 * Generations of one request: several choices run at once and are read as one stream.
 * Source: OpenAI's API reference, `n`.
 */
import type { Generator } from "../../text-model/reasoning-budget.ts";
import type { CallFacts, TextChunk, TextGeneration, TextRequest } from "../../text-model/text-request.ts";
import { withChoiceSeed } from "./generation-fields.ts";

export interface IndexedChunk {
  readonly index: number;
  readonly chunk: TextChunk;
}

export interface ChunkSource {
  /** Undefined behind the last. @throws ServerError of the first generation that fails; the others are cancelled */
  next(): Promise<IndexedChunk | undefined>;
  /** The chunks behind those that were read, each as it comes. @throws as `next` */
  deliver(take: (chunk: IndexedChunk) => Promise<void> | undefined): Promise<void>;
  return(): Promise<void>;
}

/** All requests are checked before the first one runs. @throws FieldError */
export async function openGenerations(
  model: Generator,
  requests: readonly TextRequest[],
  numChoices: number,
  call: CallFacts,
): Promise<ChunkSource> {
  const generations: TextGeneration[] = [];
  try {
    for (const request of requests) {
      for (let i = 0; i < numChoices; i++) generations.push(await model.generate(withChoiceSeed(request, i), call));
    }
  } catch (error) {
    for (const generation of generations) await generation.return();
    throw error;
  }
  const [only] = generations;
  return generations.length === 1 && only !== undefined ? new SingleSource(only) : new MergedSource(generations);
}

class SingleSource implements ChunkSource {
  readonly #generation: TextGeneration;

  constructor(generation: TextGeneration) {
    this.#generation = generation;
  }

  async next(): Promise<IndexedChunk | undefined> {
    const chunk = await this.#generation.next();
    return chunk === undefined ? undefined : { index: 0, chunk };
  }

  deliver(take: (chunk: IndexedChunk) => Promise<void> | undefined): Promise<void> {
    return this.#generation.deliver((chunk) => take({ index: 0, chunk }));
  }

  return(): Promise<void> {
    return this.#generation.return();
  }
}

interface Outcome {
  readonly index: number;
  readonly chunk: TextChunk | undefined;
}

class MergedSource implements ChunkSource {
  readonly #generations: readonly TextGeneration[];
  /** The next chunk of each generation that has not ended, the longest unread first. */
  readonly #pending = new Map<number, Promise<Outcome>>();
  #hasStarted = false;

  constructor(generations: readonly TextGeneration[]) {
    this.#generations = generations;
  }

  async next(): Promise<IndexedChunk | undefined> {
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      for (const index of this.#generations.keys()) this.#read(index);
    }
    while (this.#pending.size > 0) {
      const { index, chunk } = await this.#race();
      this.#pending.delete(index);
      if (chunk === undefined) continue;
      if (chunk.finish === undefined) this.#read(index);
      return { index, chunk };
    }
    return undefined;
  }

  async deliver(take: (chunk: IndexedChunk) => Promise<void> | undefined): Promise<void> {
    for (let next = await this.next(); next !== undefined; next = await this.next()) await take(next);
  }

  async return(): Promise<void> {
    this.#pending.clear();
    await Promise.all(this.#generations.map((generation) => generation.return()));
  }

  async #race(): Promise<Outcome> {
    try {
      return await Promise.race(this.#pending.values());
    } catch (error) {
      await this.return();
      throw error;
    }
  }

  #read(index: number): void {
    const generation = this.#generations[index];
    if (generation === undefined) return;
    const next = generation.next().then((chunk) => ({ index, chunk }));
    next.catch(() => undefined); // `#race` reports it
    this.#pending.set(index, next);
  }
}
