/** Bandwidth of the replacement of embeddings. Source: replace-rows.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchReplaceRows } from "./replace-rows.cuda.ts";

const WIDTH = 4096;

/** Rows of an image, and of several. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "replace-rows bf16", benches: (context) => [576, 4608].map((count) => bench(context, count)) },
];

function bench(context: CudaCheckContext, count: number): CudaBench {
  const numRows = 2 * count;
  const args = {
    type: "bf16",
    x: context.zeros(numRows * WIDTH * ELEM_BYTES.bf16),
    rows: context.upload(Int32Array.from({ length: count }, (_, i) => 2 * i)),
    values: uploadPattern(context, "bf16", count * WIDTH),
    numRows,
    count,
    width: WIDTH,
  } as const;
  return {
    name: `${count} rows`,
    bytes: 2 * count * WIDTH * ELEM_BYTES.bf16,
    flops: 0,
    launch: (): void => launchReplaceRows(context.stream, args),
  };
}
