/**
 * One of the GPUs that run a model together. Small sums go through memory that each GPU reads of the others, where all are in
 * this process and reach each other; all else goes through NCCL. It knows no step and no request.
 */
import { hostname } from "node:os";
import process from "node:process";
import {
  ALL_REDUCE_MAX_BYTES,
  type AllReduceCudaArgs,
  allReduceBytes,
  launchAllReduce,
} from "../../../kernels/all-reduce/all-reduce.cuda.ts";
import { ELEM_BYTES, ELEM_VEC, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { CudaCommunicator, newGroupId } from "../../device/cuda/communicator.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import { layOut } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { CudaRanks } from "../../models/cuda/pass.ts";
import { placeOf, type RankPlace } from "../../models/shard/rank-shard.ts";
import { DeterministicAllReduce } from "./deterministic-all-reduce.ts";

/** NCCL ids made by rank 0: one for the whole group, then one for each stage. */
export type GroupIds = readonly Uint8Array[];

export interface RankLayout {
  readonly numTensorRanks: number;
  readonly numStages: number;
}

export function newGroupIds({ numTensorRanks, numStages }: RankLayout): GroupIds {
  const hasStageGroups = numStages > 1 && numTensorRanks > 1;
  return Array.from({ length: hasStageGroups ? 1 + numStages : 1 }, newGroupId);
}

/** A member of a group, for as long as the model is loaded. */
export interface GroupMember extends CudaRanks {
  /** The least of what the ranks say. Waits for them. */
  least(value: number): number;
  close(): void;
}

/** How sums are made. */
export interface SumForm {
  /** Bytes of an all-reduce through peer memory, where peers are mapped; larger ones are split. */
  readonly maxSharedBytes: number;
  /** All others in the order of ranks, not by NCCL's own sums. */
  readonly isOrdered: boolean;
}

const FASTEST: SumForm = { maxSharedBytes: ALL_REDUCE_MAX_BYTES, isOrdered: false };
/** The same summation order for every size. */
const DETERMINISTIC: SumForm = { maxSharedBytes: Number.POSITIVE_INFINITY, isOrdered: true };

/** Sums by reading the others' memory. */
interface SharedSums {
  readonly shared: Pick<AllReduceCudaArgs, "staging" | "flags" | "rounds" | "rank" | "numRanks">;
  readonly buffers: readonly CudaBuffer[];
}

export class RankGroup implements GroupMember {
  readonly place: RankPlace;
  readonly #device: CudaDevice;
  readonly #all: CudaCommunicator;
  /** The ranks of this stage. */
  readonly #stage: CudaCommunicator | undefined;
  readonly #sums: SharedSums | undefined;
  readonly #ordered: DeterministicAllReduce | undefined;
  readonly #maxSharedBytes: number;

  /**
   * Waits, on this thread, until all ranks have come.
   * @throws Error with NCCL's reason
   */
  constructor(
    device: CudaDevice,
    ids: GroupIds,
    rank: number,
    layout: RankLayout,
    { maxSharedBytes, isOrdered }: SumForm = FASTEST,
  ) {
    const { numTensorRanks, numStages } = layout;
    this.place = placeOf(rank, numTensorRanks, numStages);
    this.#device = device;
    this.#maxSharedBytes = maxSharedBytes;
    const [all, ...stages] = ids;
    if (all === undefined) throw new Error("a group of GPUs without an id");
    this.#all = new CudaCommunicator(device, all, rank, numTensorRanks * numStages);
    const stageId = stages[this.place.stage];
    if (numStages === 1) this.#stage = this.#all;
    else if (stageId !== undefined) {
      this.#stage = new CudaCommunicator(device, stageId, this.place.tensorRank, numTensorRanks);
    }
    if (this.#stage === undefined || numTensorRanks === 1) return;
    this.#sums = shareSums(device, this.#stage);
    const isWhole = this.#sums !== undefined && maxSharedBytes === Number.POSITIVE_INFINITY;
    if (isOrdered && !isWhole) this.#ordered = new DeterministicAllReduce(device, this.#stage);
  }

  /** Whether small sums do without NCCL. */
  get sharesMemory(): boolean {
    return this.#sums !== undefined;
  }

  least(value: number): number {
    return Math.min(...this.#all.exchange(Uint32Array.of(value)));
  }

  sum(at: DevicePointer, count: number, type: ElemType): void {
    const { stream } = this.#device;
    const isSmall = count * ELEM_BYTES[type] <= this.#maxSharedBytes && count % ELEM_VEC[type] === 0;
    if (this.#sums === undefined || !isSmall) {
      (this.#ordered ?? this.#stage)?.sum(at, count, type);
      return;
    }
    const capacity = ALL_REDUCE_MAX_BYTES / ELEM_BYTES[type];
    for (let first = 0; first < count; first += capacity) {
      const piece = at + BigInt(first * ELEM_BYTES[type]);
      const numHere = Math.min(capacity, count - first);
      launchAllReduce(stream, { ...this.#sums.shared, type, in: piece, out: piece, count: numHere, capacity });
    }
  }

  receiveRows(at: DevicePointer, count: number, type: ElemType): void {
    const { stage, tensorRank, numTensorRanks } = this.place;
    this.#all.receive(at, count, type, (stage - 1) * numTensorRanks + tensorRank);
  }

  sendRows(at: DevicePointer, count: number, type: ElemType): void {
    const { stage, tensorRank, numTensorRanks } = this.place;
    this.#all.send(at, count, type, (stage + 1) * numTensorRanks + tensorRank);
  }

  gather(parts: DevicePointer, count: number): void {
    this.#stage?.gather(parts, count, "f32", 4);
  }

  returnLogits(at: DevicePointer, count: number): void {
    const { stage, tensorRank, numStages, numTensorRanks } = this.place;
    if (tensorRank !== 0) return;
    const last = (numStages - 1) * numTensorRanks;
    if (stage === numStages - 1) this.#all.send(at, count, "f32", 0);
    else if (stage === 0) this.#all.receive(at, count, "f32", last);
  }

  copyRows(copy: Parameters<CudaRanks["copyRows"]>[0]): void {
    if (copy.numRows > 1) this.#device.stream.copyRows(copy);
    else this.#device.stream.copyOnDevice(copy.to, copy.from, copy.rowBytes);
  }

  close(): void {
    for (const buffer of this.#sums?.buffers ?? []) buffer.close();
    this.#ordered?.close();
    if (this.#stage !== this.#all) this.#stage?.close();
    this.#all.close();
  }
}

/** With `isDeterministic`, one that sums in the same order for every size. */
export function openGroup(
  device: CudaDevice,
  ids: GroupIds,
  rank: number,
  layout: RankLayout,
  isDeterministic = false,
): RankGroup {
  return new RankGroup(device, ids, rank, layout, isDeterministic ? DETERMINISTIC : FASTEST);
}

/** Undefined unless all ranks are in this process and reach each other's memory. All ranks come to the same. */
function shareSums(device: CudaDevice, group: CudaCommunicator): SharedSums | undefined {
  const { numRanks } = group;
  if (numRanks === 1) return undefined;
  const where = Uint32Array.of(hashOf(hostname()), process.pid, device.ordinal);
  const places = rowsOf(group.exchange(where), where.length);
  const isHere = places.every(([host, pid]) => host === where[0] && pid === where[1]);
  const others = places.map(([, , ordinal = 0]) => ordinal).filter((ordinal) => ordinal !== device.ordinal);
  const reaches = isHere && others.length === numRanks - 1 && others.every((ordinal) => device.reachPeer(ordinal));
  if (group.exchange(Uint32Array.of(reaches ? 1 : 0)).includes(0)) return undefined;
  return placeSums(device, group);
}

function placeSums(device: CudaDevice, group: CudaCommunicator): SharedSums {
  const { rank, numRanks } = group;
  // In bytes, so that one piece of memory serves elements of any type.
  const sizes = allReduceBytes("f32", numRanks, ALL_REDUCE_MAX_BYTES / ELEM_BYTES.f32);
  const { offsets, numBytes } = layOut([sizes.staging, sizes.flags, sizes.rounds]);
  const [stagingAt = 0, flagsAt = 0, roundsAt = 0] = offsets;
  const memory = device.allocate("sums over GPUs", numBytes);
  device.stream.fill(memory.address, 0, numBytes);
  device.stream.synchronize();
  const bases = rowsOf(group.exchange(wordsOf(memory.address)), 2).map(addressOf);
  const tables = device.allocate("where sums over GPUs meet", 16 * numRanks);
  const addresses = BigUint64Array.from([
    ...bases.map((base) => base + BigInt(stagingAt)),
    ...bases.map((base) => base + BigInt(flagsAt)),
  ]);
  device.stream.copyToDevice(tables.address, addresses, addresses.byteLength);
  device.stream.synchronize();
  return {
    shared: {
      staging: tables.address,
      flags: tables.address + BigInt(8 * numRanks),
      rounds: memory.address + BigInt(roundsAt),
      rank,
      numRanks,
    },
    buffers: [memory, tables],
  };
}

function rowsOf(words: Uint32Array, width: number): readonly (readonly number[])[] {
  return Array.from({ length: words.length / width }, (_, i) => [...words.subarray(i * width, (i + 1) * width)]);
}

function wordsOf(address: DevicePointer): Uint32Array {
  return new Uint32Array(BigUint64Array.of(address).buffer);
}

function addressOf([low = 0, high = 0]: readonly number[]): DevicePointer {
  return (BigInt(high) << 32n) | BigInt(low);
}

function hashOf(text: string): number {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619) >>> 0;
  return hash;
}
