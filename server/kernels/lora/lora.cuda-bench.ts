/** Adapters of rank 16 on gate and up. Source: lora.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { LORA_PART_BYTES, LORA_PARTS, launchLora, loraLowBytes, writeLoraPart } from "./lora.cuda.ts";
import { uploadTiles } from "./lora.cuda-check.ts";
import type { LoraSpan } from "./lora-rows.ts";
import { tileGroups } from "./lora-tiles.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [{ name: "lora bf16", benches }];

function benches(context: CudaCheckContext): readonly CudaBench[] {
  const [inputs, half, rank, numAdapters] = [4096, 14336, 16, 8];
  const width = 2 * half;
  const addresses = Array.from({ length: numAdapters }, () => {
    const table = new DataView(new ArrayBuffer(LORA_PARTS * LORA_PART_BYTES));
    for (const [i, column] of [0, half].entries()) {
      const a = uploadPattern(context, "bf16", rank * inputs);
      const b = uploadPattern(context, "bf16", half * rank);
      writeLoraPart(table, i * LORA_PART_BYTES, { a, b, rank, column, outputs: half });
    }
    return context.upload(table);
  });
  return [1, 64, 2048].map((numRows) => {
    const spans = Array.from({ length: Math.min(numRows, 64) }, (_, i): LoraSpan => {
      const queryLength = numRows / Math.min(numRows, 64);
      return { queryStart: i * queryLength, queryLength, adapter: i % numAdapters };
    });
    const numHere = Math.min(numRows, numAdapters);
    const args = {
      type: "bf16",
      ...uploadTiles(context, tileGroups(spans, undefined), numRows, numRows <= 64, addresses),
      firstPart: 0,
      x: uploadPattern(context, "bf16", numRows * inputs),
      y: uploadPattern(context, "bf16", numRows * width),
      inputs,
      width,
      numRows,
      maxRank: rank,
      low: context.allocate(loraLowBytes(numRows, rank)),
    } as const;
    return {
      name: `${numRows} rows, ${numHere} adapters`,
      bytes: numHere * 2 * rank * (2 * inputs + width) + numRows * 2 * (inputs + 2 * width),
      flops: 2 * numRows * rank * (2 * inputs + width),
      launch: (): void => launchLora(context.stream, args),
    };
  });
}
