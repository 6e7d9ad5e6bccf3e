/** Decode and prefill attention over a paged KV cache of bf16 and of FP8. Sources: the attention kernels here. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import type { CudaElement } from "../testing/cuda-elements.ts";
import { type AttentionCudaArgs, launchDecodeAttention, launchPrefillAttention } from "./attention.cuda.ts";
import { type Lengths, layOut } from "./attention.cuda-check.ts";
import { decodeWorkspaceBytes } from "./decode-plan.ts";

const SCALES = { key: 0.5, value: 0.25 } as const;

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [false, true].flatMap((isFp8) => [
  { name: `decode attention ${isFp8 ? "e4m3" : "bf16"}`, benches: (context) => decodeBenches(context, isFp8) },
  { name: `prefill attention ${isFp8 ? "e4m3" : "bf16"}`, benches: (context) => prefillBenches(context, isFp8) },
]);

/** Shapes of an 8B model: 32 query heads over 8 KV heads of 128. */
function benchArgs(context: CudaCheckContext, isFp8: boolean, lengths: Lengths): AttentionCudaArgs {
  const blockSize = 32;
  const [numHeads, numKvHeads, headDim] = [32, 8, 128];
  const { sequences, numTokens, blockTables, maxBlocks, numBlocks } = layOut(lengths, blockSize);
  const kvType: CudaElement = isFp8 ? "e4m3" : "bf16";
  const cacheCount = numBlocks * blockSize * numKvHeads * headDim;
  return {
    type: "bf16",
    q: uploadPattern(context, "bf16", numTokens * numHeads * headDim),
    qRowWidth: numHeads * headDim,
    keys: uploadPattern(context, kvType, cacheCount),
    values: uploadPattern(context, kvType, cacheCount),
    contextLengths: context.upload(Int32Array.from(sequences, (sequence) => sequence.contextLength)),
    blockTables: context.upload(blockTables),
    out: context.allocate(numTokens * numHeads * headDim * 2),
    numSequences: sequences.length,
    maxBlocks,
    blockSize,
    numHeads,
    numKvHeads,
    headDim,
    scale: 1 / Math.sqrt(headDim),
    fp8: isFp8 ? SCALES : undefined,
  };
}

function decodeBenches(context: CudaCheckContext, isFp8: boolean): readonly CudaBench[] {
  const { stream } = context;
  const cases: readonly (readonly [batch: number, length: number])[] = [
    [1, 2048],
    [8, 2048],
    [64, 2048],
    [256, 512],
  ];
  return cases.map(([batch, length]) => {
    const args = benchArgs(context, isFp8, Array<readonly [number, number]>(batch).fill([1, length - 1]));
    const bytes = decodeWorkspaceBytes(stream.arch, stream.numSms, { ...args, isFp8 });
    const counters = context.zeros(bytes.counters);
    const partials = context.allocate(bytes.partials);
    return {
      name: `${batch} sequences of ${length}`,
      bytes: batch * length * 2 * 8 * 128 * (isFp8 ? 1 : 2),
      flops: batch * length * 4 * 32 * 128,
      launch: (): void => launchDecodeAttention(stream, { ...args, counters, partials }),
    };
  });
}

function prefillBenches(context: CudaCheckContext, isFp8: boolean): readonly CudaBench[] {
  const cases: readonly (readonly [batch: number, length: number])[] = [
    [1, 2048],
    [16, 512],
    [1, 8192],
  ];
  return cases.map(([batch, length]) => {
    const args = benchArgs(context, isFp8, Array<readonly [number, number]>(batch).fill([length, 0]));
    const queryStarts = context.upload(Int32Array.from({ length: batch + 1 }, (_, i) => i * length));
    return {
      name: `${batch} sequences of ${length}`,
      bytes: batch * length * (2 * 32 + 2 * 8) * 128 * 2,
      flops: (batch * length * (length + 1) * 4 * 32 * 128) / 2,
      launch: (): void => launchPrefillAttention(context.stream, { ...args, queryStarts, maxQueryLength: length }),
    };
  });
}
