/**
 * States of sequences of models with recurrent layers: a slot for each that runs, snapshots for prefix reuse behind those,
 * and the copies between them that are due before the next step. It knows no memory; without states it does nothing.
 */
import type { Sequence } from "../request/sequence.ts";
import { StateSlots } from "./state-slots.ts";
import { chunkToSnapshot, StateSnapshots } from "./state-snapshots.ts";

export class SequenceStates {
  readonly #slots: StateSlots;
  readonly #snapshots: StateSnapshots;
  readonly #needsSnapshot: boolean;
  readonly #blockSize: number;
  #copies: number[] = [];

  /** `numSnapshots` of the slots, the last ones, keep states for others; undefined: a prefix is of use without its state. */
  constructor(blockSize: number, numSlots: number | undefined, numSnapshots: number | undefined) {
    this.#needsSnapshot = numSlots !== undefined && numSnapshots !== undefined;
    this.#blockSize = blockSize;
    const count = numSlots === undefined ? 0 : (numSnapshots ?? 0);
    const numOwn = numSlots === undefined ? undefined : numSlots - count;
    this.#slots = new StateSlots(numOwn);
    this.#snapshots = new StateSnapshots(numOwn ?? 0, count);
  }

  /** Another sequence gets a slot, or needs none. */
  get hasRoom(): boolean {
    return this.#slots.hasRoom;
  }

  /** Pairs of slots to copy, in order. */
  takeCopies(): number[] {
    const copies = this.#copies;
    this.#copies = [];
    return copies;
  }

  /** `link`: that of the prefix cache whose state it takes up; undefined if it begins at its first token. */
  take(sequence: Sequence, link: number | undefined): void {
    const snapshot = link === undefined ? undefined : this.#snapshots.use(link);
    this.#slots.take(sequence);
    if (snapshot !== undefined) this.#copies.push(snapshot, sequence.state);
  }

  fork(parent: Sequence, child: Sequence): void {
    this.#slots.take(child);
    if (child.state >= 0) this.#copies.push(parent.state, child.state);
  }

  release(sequence: Sequence): void {
    this.#slots.release(sequence);
  }

  /** The part of a chain of links that is of use: up to the last with a snapshot, where one is needed. */
  reusable(links: readonly number[]): number {
    return this.#needsSnapshot ? this.#snapshots.longest(links) : links.length;
  }

  /** Tokens of the next chunk, of `length` at most. */
  chunkOf(sequence: Sequence, length: number): number {
    return this.#snapshots.isEnabled ? chunkToSnapshot(sequence, length, this.#blockSize) : length;
  }

  /** The block whose end its state has reached, if others may take that up; undefined: none. */
  blockToKeep({ state, numComputed, blockTable, group }: Sequence): number | undefined {
    const isAtEnd = numComputed > 0 && numComputed % this.#blockSize === 0;
    if (state < 0 || !this.#snapshots.isEnabled || !isAtEnd || group?.isForked === true) return undefined;
    return blockTable[numComputed / this.#blockSize - 1];
  }

  /** Keeps a copy of its state for a link. */
  keep({ state }: Sequence, link: number): void {
    const slot = this.#snapshots.take(link);
    if (slot !== undefined) this.#copies.push(state, slot);
  }

  /** The prefix cache knows a link no more. */
  forget(link: number): void {
    this.#snapshots.forget(link);
  }

  /** @throws when a slot is lost or held twice */
  checkIntegrity(running: readonly Sequence[]): void {
    this.#slots.checkIntegrity(running);
    this.#snapshots.checkIntegrity();
  }
}
