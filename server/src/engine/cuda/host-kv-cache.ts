/**
 * Copies of cache blocks on a GPU, between the blocks that attention reads and a second tier in locked memory of the host.
 * What goes to the host or comes from there passes a stage on the device: the stream of steps only fills and empties
 * stages, and a stream of its own crosses to the host meanwhile. It decides nothing.
 */

/** What copies are made of. Each stream does what is asked of it in order; the two know of each other by marks alone. */
export interface HostKvCopies {
  /** On the stream of steps. */
  move(from: number, to: number): void;
  gather(block: number, stage: number): void;
  scatter(stage: number, block: number): void;
  /** On the stream of copies. */
  store(stage: number, hostBlock: number): void;
  fetch(hostBlock: number, stage: number): void;
  /** The stage is done with, up to here. */
  mark(stage: number, stream: HostKvStream): void;
  /** What comes next on the stream waits for the last mark of the stage, if there is one. */
  await(stage: number, stream: HostKvStream): void;
}

export type HostKvStream = "steps" | "copies";

/** So many blocks may be on their way at a time. */
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
    copies.mark(stage, first);
    copies.await(stage, last);
    if (isToHost) copies.store(stage, to - this.#numBlocks);
    else copies.scatter(stage, to);
    copies.mark(stage, last);
  }
}
