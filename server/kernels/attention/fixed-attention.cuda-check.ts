/**
 * Attention of the deterministic mode on a GPU: a query gives the same bits alone, in any chunk, and beside any other
 * queries. Sources: the attention kernels in this folder.
 */
import type { CudaCheck, CudaCheckContext } from "../testing/cuda-check.ts";
import { seededFloats, seededOrder, uploadRandom } from "../testing/cuda-check-data.ts";
import { toElements } from "../testing/cuda-elements.ts";
import { type AttentionCudaArgs, launchPrefillAttention } from "./attention.cuda.ts";

interface Variant {
  readonly headDim: number;
  readonly window?: number;
  readonly softCap?: number;
  readonly isFp8?: boolean;
}

const VARIANTS: readonly Variant[] = [
  { headDim: 128 },
  { headDim: 24, window: 40 },
  { headDim: 256, softCap: 10 },
  { headDim: 64, isFp8: true },
];
const [NUM_HEADS, NUM_KV_HEADS, BLOCK_SIZE, LENGTH] = [4, 2, 16, 150] as const;
const NUM_BLOCKS = Math.ceil(LENGTH / BLOCK_SIZE);
const SCALES = { key: 0.5, value: 0.25 } as const;

/** Queries and keys before them, all of the one sequence; a past of -1 is a padded row. */
type Step = readonly (readonly [queries: number, past: number])[];
const STEPS: readonly Step[] = [
  [[LENGTH, 0]],
  [
    [1, LENGTH - 1],
    [1, -1],
  ],
  [1, 15, 16, 17, 63, 64, 65, 128].map((past) => [1, past] as const),
  [
    [3, 40],
    [37, 110],
    [64, 0],
    [70, 64],
  ],
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => {
  const { headDim, window, softCap, isFp8 } = variant;
  const more = `${window ? ` window ${window}` : ""}${softCap ? ` cap ${softCap}` : ""}${isFp8 ? " fp8" : ""}`;
  return {
    name: `attention of heads of ${headDim}${more} whatever the chunk`,
    maxError: 0,
    shows: ["chunks"],
    run: (context) => countDifferences(context, variant),
  };
});

async function countDifferences(
  context: CudaCheckContext,
  { headDim, window, softCap, isFp8 = false }: Variant,
): Promise<number> {
  const width = NUM_HEADS * headDim;
  const cacheCount = NUM_BLOCKS * BLOCK_SIZE * NUM_KV_HEADS * headDim;
  const kvType = isFp8 ? "e4m3" : "bf16";
  const queries = Uint16Array.from(toElements("bf16", seededFloats(LENGTH * width, 1, 2)));
  const shared = {
    ...({ type: "bf16", qRowWidth: width, maxBlocks: NUM_BLOCKS, blockSize: BLOCK_SIZE, headDim } as const),
    ...{ numHeads: NUM_HEADS, numKvHeads: NUM_KV_HEADS, scale: 1 / Math.sqrt(headDim), window, softCap },
    fp8: isFp8 ? SCALES : undefined,
    keys: uploadRandom(context, kvType, cacheCount, 2, isFp8 ? 4 : 2).pointer,
    values: uploadRandom(context, kvType, cacheCount, 3, isFp8 ? 4 : 1).pointer,
  };
  const expected = new Map<number, string>();
  let numDifferent = 0;
  for (const step of STEPS) {
    for (const [position, row] of await runStep(context, shared, step, queries)) {
      const known = expected.get(position);
      if (known !== undefined && known !== row) numDifferent++;
      expected.set(position, row);
    }
  }
  return numDifferent;
}

/** The bits of each query's row, by its position; -1 for a padded one, which is to be zeros. */
async function runStep(
  context: CudaCheckContext,
  shared: Omit<AttentionCudaArgs, "q" | "contextLengths" | "blockTables" | "out" | "numSequences">,
  step: Step,
  queries: Uint16Array,
): Promise<readonly (readonly [position: number, bits: string])[]> {
  const width = shared.qRowWidth;
  const positions = step.flatMap(([count, past]) => Array.from({ length: count }, (_, i) => past + i));
  const q = new Uint16Array(positions.length * width);
  for (const [row, position] of positions.entries()) {
    const from = Math.max(0, position) * width;
    q.set(queries.subarray(from, from + width), row * width);
  }
  const starts = [0];
  for (const [count] of step) starts.push((starts.at(-1) ?? 0) + count);
  const order = seededOrder(NUM_BLOCKS, 4);
  const out = context.allocate(2 * q.length);
  launchPrefillAttention(context.stream, {
    ...shared,
    q: context.upload(q),
    out,
    contextLengths: context.upload(Int32Array.from(step, ([count, past]) => count + past)),
    blockTables: context.upload(Int32Array.from(step.flatMap(() => [...order]))),
    queryStarts: context.upload(Int32Array.from(starts)),
    numSequences: step.length,
    maxQueryLength: Math.max(...step.map(([count]) => count)),
    isDeterministic: true,
  });
  const rows = new Uint16Array(q.length);
  await context.download(out, rows);
  return positions.map((position, row) => {
    const bits = rows.subarray(row * width, (row + 1) * width);
    if (position < 0 && bits.some((word) => word !== 0)) throw new Error("a padded row is not zeros");
    return [position, bits.join()];
  });
}
