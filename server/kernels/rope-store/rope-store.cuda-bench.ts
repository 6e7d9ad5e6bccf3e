/** Bandwidth of RoPE and the writes to the KV cache. Source: rope-store.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchRopeStore } from "./rope-store.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "rope-store bf16", benches: (context) => [1, 64, 8192].map((numTokens) => bench(context, numTokens)) },
];

function bench(context: CudaCheckContext, numTokens: number): CudaBench {
  const [numHeads, numKvHeads, headDim] = [32, 8, 128];
  const width = (numHeads + 2 * numKvHeads) * headDim;
  const qkv = uploadPattern(context, "bf16", numTokens * width);
  const cacheBytes = numTokens * numKvHeads * headDim * 2;
  const slots = context.upload(Int32Array.from({ length: numTokens }, (_, i) => i));
  const args = {
    type: "bf16",
    qkv,
    positions: slots,
    slots,
    numTokens,
    numHeads,
    numKvHeads,
    headDim,
    rope: { invFreq: uploadPattern(context, "f32", headDim / 2), numDims: headDim, magnitude: 1 },
    q: context.allocate(numTokens * numHeads * headDim * 2),
    qRowWidth: numHeads * headDim,
    keys: context.allocate(cacheBytes),
    values: context.allocate(cacheBytes),
  } as const;
  return {
    name: `${numTokens} tokens of 32/8 heads of 128`,
    bytes: 4 * numTokens * width,
    flops: 0,
    launch: (): void => launchRopeStore(context.stream, args),
  };
}
