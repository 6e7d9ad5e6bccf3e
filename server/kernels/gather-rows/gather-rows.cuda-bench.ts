/** Bandwidth of the embedding look-up. Source: gather-rows.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchGatherRows } from "./gather-rows.cuda.ts";

const WIDTH = 4096;
const NUM_ROWS = 32_768;
/** Prime, so that no two rows of a launch are neighbours. */
const ID_STEP = 7919;

/** At the width of Llama-3.1-8B. */
export const cudaBenches: readonly CudaBenchSet[] = [
  {
    name: "gather-rows bf16",
    benches: (context): CudaBench[] => {
      const table = uploadPattern(context, "bf16", NUM_ROWS * WIDTH);
      return [1, 64, 8192].map((count) => bench(context, table, count));
    },
  },
];

function bench(context: CudaCheckContext, table: bigint, count: number): CudaBench {
  const ids = context.upload(Int32Array.from({ length: count }, (_, i) => (i * ID_STEP) % NUM_ROWS));
  const out = context.allocate(count * WIDTH * ELEM_BYTES.bf16);
  const args = { type: "bf16", table, ids, out, numRows: NUM_ROWS, count, width: WIDTH } as const;
  return {
    name: `${count} rows`,
    bytes: 2 * count * WIDTH * ELEM_BYTES.bf16,
    flops: 0,
    launch: (): void => launchGatherRows(context.stream, args),
  };
}
