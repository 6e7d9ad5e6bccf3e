/** Bandwidth of the elementwise kernels. Source: elementwise.cu. */
import { ELEM_BYTES } from "../cuda/launch-args.ts";
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { launchActivation, launchAdd, launchGateRows, launchScaleColumns } from "./elementwise.cuda.ts";

const WIDTH = 4096;
const ROWS: readonly number[] = [64, 8192];

/** At the width of Llama-3.1-8B. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "elementwise bf16", benches: (context) => ROWS.flatMap((numRows) => benchesOf(context, numRows)) },
];

function benchesOf(context: CudaCheckContext, numRows: number): CudaBench[] {
  const { stream } = context;
  const count = numRows * WIDTH;
  const type = "bf16";
  const x = uploadPattern(context, type, count);
  const other = uploadPattern(context, type, count);
  const out = context.allocate(count * ELEM_BYTES.bf16);
  const factors = uploadPattern(context, "f32", WIDTH);
  const gate = uploadPattern(context, type, numRows);
  const bench = (name: string, numOperands: number, launch: () => void): CudaBench => {
    return { name: `${name} ${numRows} rows`, bytes: numOperands * count * ELEM_BYTES.bf16, flops: count, launch };
  };
  return [
    bench("add", 3, () => launchAdd(stream, { type, count, a: x, b: other, out })),
    bench("activation", 2, () => launchActivation(stream, { type, count, x, out, activation: "gelu-tanh" })),
    bench("scale columns", 2, () => launchScaleColumns(stream, { type, count, x, factors, out, width: WIDTH })),
    bench("gate rows", 2, () => launchGateRows(stream, { type, count, x, gate, out, width: WIDTH })),
  ];
}
