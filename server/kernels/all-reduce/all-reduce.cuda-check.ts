/**
 * The all-reduce on one GPU: this rank runs. The other rank's message and flags are prepared for two rounds, one in
 * each half of its staging memory. Source: all-reduce.cu.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { allocateFloats, downloadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { ALL_REDUCE_BLOCKS, allReduceBytes, launchAllReduce } from "./all-reduce.cuda.ts";

const COUNT = 5000 * 8;
const RANKS = 2;

export const cudaChecks: readonly CudaCheck[] = (["f32", "bf16"] as const).map((type) => ({
  name: `all-reduce ${type}, one of two ranks`,
  maxError: type === "f32" ? 1e-6 : 4e-3,
  run: (context: CudaCheckContext) => runRank(context, type),
}));

async function runRank(context: CudaCheckContext, type: ElemType): Promise<number> {
  const bytes = allReduceBytes(type, RANKS, COUNT);
  const mine = uploadRandom(context, type, COUNT, 1);
  const theirs = uploadRandom(context, type, 2 * COUNT, 2);
  // The other rank has already signaled round 2.
  const told = Uint32Array.from({ length: ALL_REDUCE_BLOCKS * RANKS }, (_, i) => (i % RANKS === 1 ? 2 : 0));
  const addresses = (own: bigint, other: bigint): bigint => context.upload(BigUint64Array.of(own, other));
  const shared = {
    type,
    in: mine.pointer,
    staging: addresses(context.allocate(bytes.staging), theirs.pointer),
    flags: addresses(context.upload(told), context.zeros(bytes.flags)),
    rounds: context.zeros(bytes.rounds),
    rank: 0,
    numRanks: RANKS,
    count: COUNT,
    capacity: COUNT,
  };
  const errors: number[] = [];
  // Round 1 uses the second half, round 2 the first.
  for (const half of [1, 0]) {
    const out = allocateFloats(context, type, COUNT);
    launchAllReduce(context.stream, { ...shared, out });
    const expected = mine.values.map((value, i) => value + (theirs.values[half * COUNT + i] ?? Number.NaN));
    errors.push(relativeError(await downloadFloats(context, type, out, COUNT), expected));
  }
  return Math.max(...errors);
}
