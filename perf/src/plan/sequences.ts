/** Sequences of a load on a stateful model (perf_analyzer, "Load Modes": sequences). Pure. */
import { createRandom, type Random } from "./random.ts";

export interface SequencePlan {
  /** Requests of a sequence on average. */
  readonly length: number;
  /** Lengths differ by up to so many per cent. */
  readonly variationPercent: number;
  readonly firstId: number;
  /** Ids end below it and start again; undefined: they do not end. */
  readonly endId: number | undefined;
  readonly seed: number;
}

/** Place of a request in its sequence. */
export interface SequenceStep {
  readonly id: number;
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

/** Ids of one of `count` threads: no two threads give the same one at a time. */
export class SequenceIds {
  readonly #plan: SequencePlan;
  readonly #stride: number;
  readonly #first: number;
  #next: number;

  constructor(plan: SequencePlan, index: number, count: number) {
    this.#plan = plan;
    this.#stride = count;
    this.#first = plan.firstId + index;
    this.#next = this.#first;
  }

  next(): number {
    const { endId } = this.#plan;
    if (endId !== undefined && this.#next >= endId) this.#next = this.#first;
    const id = this.#next;
    this.#next += this.#stride;
    return id;
  }
}

/** The steps of one client, sequence after sequence. */
export class SequenceSteps {
  readonly #plan: SequencePlan;
  readonly #ids: SequenceIds;
  readonly #random: Random;
  #id = 0;
  #at = 0;
  #length = 0;

  constructor(plan: SequencePlan, ids: SequenceIds, client: number) {
    this.#plan = plan;
    this.#ids = ids;
    this.#random = createRandom(plan.seed + client);
  }

  next(): SequenceStep {
    if (this.#at === this.#length) {
      this.#id = this.#ids.next();
      this.#length = this.#drawLength();
      this.#at = 0;
    }
    this.#at += 1;
    return { id: this.#id, isStart: this.#at === 1, isEnd: this.#at === this.#length };
  }

  #drawLength(): number {
    const { length, variationPercent } = this.#plan;
    const spread = ((this.#random.next() * 2 - 1) * variationPercent) / 100;
    return Math.max(1, Math.round(length * (1 + spread)));
  }
}
