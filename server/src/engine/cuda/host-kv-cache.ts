/**
 * Copies of KV-cache blocks between the device and the host KV cache in pinned memory. Each transfer passes a staging block
 * on the device. The stream of steps only fills and empties staging blocks; a second stream copies to and from the host at
 * the same time. It decides nothing.
 */

/** The operations of copies. Each stream runs in order; the two synchronize by events only. */
export interface HostKvCopies {
  /** On the stream of steps. */
  move(from: number, to: number): void;
  gather(block: number, stage: number): void;
  scatter(stage: number, block: number): void;
  /** On the stream of copies. */
  store(stage: number, hostBlock: number): void;
  fetch(hostBlock: number, stage: number): void;
  /** Records the event of a staging block: its work up to here. */
  record(stage: number, stream: HostKvStream): void;
  /** Later work on the stream waits for the last event of the staging block, if there is one. */
  await(stage: number, stream: HostKvStream): void;
}

export type HostKvStream = "steps" | "copies";

/** Blocks in transfer at a time. */
export const BLOCK_STAGES = 8;

export class HostKvCache {
  readonly #copies: HostKvCopies;
  readonly #numBlocks: number;
  #nextStage = 0;

  constructor(copies: HostKvCopies, numBlocks: number) {
    this.#copies = copies;
    this.#numBlocks = numBlocks;
  }

  /** Pairs [from, to, ...], as if one after the other; numbers from `numBlocks` on are blocks of the host. */
  copy(pairs: Int32Array): void {
    for (let i = 0; i < pairs.length; i += 2) this.#copyOne(pairs[i] ?? 0, pairs[i + 1] ?? 0);
  }

  #copyOne(from: number, to: number): void {
    const copies = this.#copies;
    const [isFromHost, isToHost] = [from >= this.#numBlocks, to >= this.#numBlocks];
    if (!isFromHost && !isToHost) {
      copies.move(from, to);
      return;
    }
    const stage = this.#nextStage;
    this.#nextStage = (stage + 1) % BLOCK_STAGES;
    const [first, last]: readonly HostKvStream[] = [isFromHost ? "copies" : "steps", isToHost ? "copies" : "steps"];
    if (first === undefined || last === undefined) return;
    copies.await(stage, first);
    if (isFromHost) copies.fetch(from - this.#numBlocks, stage);
    else copies.gather(from, stage);
    copies.record(stage, first);
    copies.await(stage, last);
    if (isToHost) copies.store(stage, to - this.#numBlocks);
    else copies.scatter(stage, to);
    copies.record(stage, last);
  }
}
