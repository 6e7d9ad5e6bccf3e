/**
 * Launches all-reduce.cu: the sum of small messages over the GPUs of one host, through peer memory. Source: all-reduce
 * of the NCCL user guide.
 */
import type { DevicePointer, KernelArg, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  ELEM_BYTES,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectWidth,
  i32,
  ptr,
} from "../cuda/launch-args.ts";

export interface AllReduceCudaArgs {
  readonly type: ElemType;
  readonly in: DevicePointer; // [count]
  readonly out: DevicePointer; // [count]; may be `in`
  /** u64 [numRanks]: where each rank's staging memory lies, as this rank's device sees it. */
  readonly staging: DevicePointer;
  /** u64 [numRanks]: likewise of the flags, zeros before the first launch. */
  readonly flags: DevicePointer;
  /** u32 [ALL_REDUCE_BLOCKS] of this rank, zeros before the first launch. */
  readonly rounds: DevicePointer;
  readonly rank: number;
  readonly numRanks: number;
  /** Elements of this message; a multiple of a 16-byte access, at most `capacity`. */
  readonly count: number;
  /** Elements that one half of the staging memory holds. */
  readonly capacity: number;
}

/** All ranks run as many, whatever the message, so that their rounds stay equal. */
export const ALL_REDUCE_BLOCKS = 32;
/** From about here on NCCL's ring moves fewer bytes in less time. */
export const ALL_REDUCE_MAX_BYTES: number = 512 * 1024;

const THREADS = 512;
const MAX_RANKS = 8;

/** Bytes of each rank's staging memory. */
export function allReduceBytes(
  type: ElemType,
  numRanks: number,
  capacity: number,
): { readonly staging: number; readonly flags: number; readonly rounds: number } {
  return {
    staging: 2 * capacity * ELEM_BYTES[type],
    flags: ALL_REDUCE_BLOCKS * numRanks * 4,
    rounds: ALL_REDUCE_BLOCKS * 4,
  };
}

/** Every rank launches it, with the same count; one that waits half a minute for another fails with a trap. */
export function launchAllReduce(stream: KernelStream, args: AllReduceCudaArgs): void {
  const { type, rank, numRanks, count, capacity } = args;
  expectWidth("allReduce", count, type);
  if (count > capacity || capacity % ELEM_VEC[type] !== 0) {
    throw new Error(`allReduce: expected at most ${capacity} elements, got ${count}`);
  }
  if (numRanks < 1 || numRanks > MAX_RANKS || rank < 0 || rank >= numRanks) {
    throw new Error(`allReduce: expected a rank of at most ${MAX_RANKS}, got ${rank} of ${numRanks}`);
  }
  const kernel = stream.kernel({
    source: "all-reduce/all-reduce.cu",
    name: "all_reduce",
    defines: { ...elemDefines(type), RANKS: numRanks },
    usesProgrammaticLaunch: true,
  });
  // A small message has threads enough in fewer, smaller blocks; the number of blocks stays.
  const threads = Math.min(THREADS, 32 * ceilDiv(ceilDiv(count / ELEM_VEC[type], ALL_REDUCE_BLOCKS), 32));
  stream.launch(kernel, [ALL_REDUCE_BLOCKS, 1, 1], [threads, 1, 1], 0, [
    ptr(args.in),
    ptr(args.out),
    ptr(args.staging),
    ptr(args.flags),
    ptr(args.rounds),
    i32(rank),
    i64(count),
    i64(capacity),
  ]);
}

function i64(value: number): KernelArg {
  return { i64: BigInt(value) };
}
