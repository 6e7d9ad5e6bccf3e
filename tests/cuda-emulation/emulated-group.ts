/**
 * Collectives of several emulated GPUs, in place of NCCL: threads of one process that wait for each other and read each
 * other's memory. All sums are made in the order of ranks. It shows nothing of NCCL, of streams, or of the kernel for
 * small sums.
 */
import { type CudaElement, ELEMENT_BYTES, toElements } from "../../server/kernels/testing/cuda-elements.ts";
import type { GroupMember, RankLayout } from "../../server/src/engine/ranks/rank-group.ts";
import type { CudaRanks } from "../../server/src/models/cuda/pass.ts";
import { placeOf, type RankPlace } from "../../server/src/models/shard/rank-shard.ts";
import { viewMemory } from "../../server/src/native/ffi.ts";
import type { Exclusive } from "./emulated-device.ts";
import { readFloats } from "./emulated-gpu.ts";

/** Longest wait for a rank. */
const WAIT_MS = 60_000;
/** Words: the lock; of each room how many have come and how often all have; of each rank a letter box and an address. */
const ROOMS_AT = 2;
const BOXES_AT = 64;
const ADDRESSES_AT = 128;
const GROUP_WORDS = 256;
const MAX_RANKS = 16;

/** Shared memory of all ranks of a group. */
export function newGroupMemory({ numTensorRanks, numStages }: RankLayout): SharedArrayBuffer {
  if (numTensorRanks * numStages > MAX_RANKS) throw new Error(`an emulated group has at most ${MAX_RANKS} ranks`);
  return new SharedArrayBuffer(4 * GROUP_WORDS);
}

/** One of all threads at a time: emulated kernels have one set of threads for the process. */
export function exclusiveIn(memory: SharedArrayBuffer): Exclusive {
  const words = new Int32Array(memory);
  return (run) => {
    while (Atomics.compareExchange(words, 0, 0, 1) !== 0) Atomics.wait(words, 0, 1, WAIT_MS);
    try {
      return run();
    } finally {
      Atomics.store(words, 0, 0);
      Atomics.notify(words, 0);
    }
  };
}

export class EmulatedGroup implements GroupMember {
  readonly place: RankPlace;
  readonly #rank: number;
  readonly #numRanks: number;
  readonly #words: Int32Array;
  readonly #addresses: BigUint64Array;

  constructor(memory: SharedArrayBuffer, rank: number, { numTensorRanks, numStages }: RankLayout) {
    this.place = placeOf(rank, numTensorRanks, numStages);
    this.#rank = rank;
    this.#numRanks = numTensorRanks * numStages;
    this.#words = new Int32Array(memory);
    this.#addresses = new BigUint64Array(memory, 4 * ADDRESSES_AT, MAX_RANKS);
  }

  least(value: number): number {
    const values = this.#tell(BigInt(value), this.#all());
    this.#meet(0, this.#numRanks);
    return Number(values.reduce((least, one) => (one < least ? one : least)));
  }

  sum(at: bigint, count: number, type: CudaElement): void {
    const parts = this.#tell(at, this.#stage());
    const sums = new Float32Array(count);
    for (const part of parts) {
      const values = readFloats(type, part, count);
      for (let i = 0; i < count; i++) sums[i] = (sums[i] ?? 0) + (values[i] ?? 0);
    }
    this.#meetStage();
    const stored = toElements(type, sums);
    viewMemory(at, count * ELEMENT_BYTES[type]).set(
      new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength),
    );
  }

  gather(parts: bigint, count: number): void {
    const bases = this.#tell(parts, this.#stage());
    for (const [rank, base] of bases.entries()) {
      if (rank === this.place.tensorRank) continue;
      const offset = BigInt(4 * rank * count);
      viewMemory(parts + offset, 4 * count).set(viewMemory(base + offset, 4 * count));
    }
    this.#meetStage();
  }

  receiveRows(at: bigint, count: number, type: CudaElement): void {
    this.#receive(at, count * ELEMENT_BYTES[type]);
  }

  sendRows(at: bigint, _count: number, _type: CudaElement): void {
    this.#send(at, this.#rank + this.place.numTensorRanks);
  }

  returnLogits(at: bigint, count: number): void {
    const { stage, tensorRank, numStages } = this.place;
    if (tensorRank !== 0) return;
    if (stage === numStages - 1) this.#send(at, 0);
    else if (stage === 0) this.#receive(at, 4 * count);
  }

  copyRows({ to, toPitch, from, fromPitch, rowBytes, numRows }: Parameters<CudaRanks["copyRows"]>[0]): void {
    for (let row = 0; row < numRows; row++) {
      const source = viewMemory(from + BigInt(row * fromPitch), rowBytes);
      viewMemory(to + BigInt(row * toPitch), rowBytes).set(source);
    }
  }

  close(): void {
    // The last rank frees the memory.
  }

  #all(): readonly number[] {
    return Array.from({ length: this.#numRanks }, (_, rank) => rank);
  }

  #stage(): readonly number[] {
    const { stage, numTensorRanks } = this.place;
    return Array.from({ length: numTensorRanks }, (_, i) => stage * numTensorRanks + i);
  }

  /** Values of these ranks, once all have given one. They synchronize once more before the next exchange. */
  #tell(value: bigint, ranks: readonly number[]): readonly bigint[] {
    Atomics.store(this.#addresses, this.#rank, value);
    if (ranks.length === this.#numRanks) this.#meet(0, this.#numRanks);
    else this.#meetStage();
    return ranks.map((rank) => Atomics.load(this.#addresses, rank));
  }

  #meetStage(): void {
    const { stage, numTensorRanks } = this.place;
    if (numTensorRanks === this.#numRanks) this.#meet(0, numTensorRanks);
    else this.#meet(1 + stage, numTensorRanks);
  }

  #meet(room: number, numRanks: number): void {
    const [come, turns] = [ROOMS_AT + 2 * room, ROOMS_AT + 2 * room + 1];
    const turn = Atomics.load(this.#words, turns);
    if (Atomics.add(this.#words, come, 1) === numRanks - 1) {
      Atomics.store(this.#words, come, 0);
      Atomics.add(this.#words, turns, 1);
      Atomics.notify(this.#words, turns);
      return;
    }
    while (Atomics.load(this.#words, turns) === turn) this.#wait(turns, turn);
  }

  /** Until it was taken. */
  #send(at: bigint, to: number): void {
    const box = BOXES_AT + to;
    while (Atomics.load(this.#words, box) !== 0) this.#wait(box, 1);
    Atomics.store(this.#addresses, this.#rank, at);
    Atomics.store(this.#words, box, 1 + this.#rank);
    Atomics.notify(this.#words, box);
    while (Atomics.load(this.#words, box) === 1 + this.#rank) this.#wait(box, 1 + this.#rank);
  }

  #receive(at: bigint, numBytes: number): void {
    const box = BOXES_AT + this.#rank;
    while (Atomics.load(this.#words, box) === 0) this.#wait(box, 0);
    const from = Atomics.load(this.#addresses, Atomics.load(this.#words, box) - 1);
    viewMemory(at, numBytes).set(viewMemory(from, numBytes));
    Atomics.store(this.#words, box, 0);
    Atomics.notify(this.#words, box);
  }

  #wait(word: number, seen: number): void {
    if (Atomics.wait(this.#words, word, seen, WAIT_MS) === "timed-out") {
      throw new Error(`rank ${this.#rank} of an emulated group waited for another in vain`);
    }
  }
}
