/** Bandwidth of the quantization of rows, with a scale a row. Source: quantize.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchQuantizeRows } from "./quantize.cuda.ts";

const WIDTH = 4096;

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = (["e4m3", "i8"] as const).map((codes) => ({
  name: `quantize bf16 to ${codes}`,
  benches: (context) => [1, 64, 8192].map((numRows) => bench(context, codes, numRows)),
}));

function bench(context: CudaCheckContext, codes: "e4m3" | "i8", numRows: number): CudaBench {
  const count = numRows * WIDTH;
  const args = {
    type: "bf16",
    x: uploadPattern(context, "bf16", count),
    out: context.allocate(count),
    quantized: { codes, scales: context.allocate(numRows * 4), per: "row" },
    numRows,
    width: WIDTH,
  } as const;
  return {
    name: `${numRows} rows`,
    bytes: 3 * count,
    flops: 2 * count,
    launch: (): void => launchQuantizeRows(context.stream, args),
  };
}
