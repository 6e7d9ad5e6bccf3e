/** Enqueues GEMMs with INT4 matrices as plan-gemm.ts decides them. It knows no layer. */
import { launchScaleColumns } from "../../../kernels/elementwise/elementwise.cuda.ts";
import type { CudaActivation } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import {
  type Int4CudaWeight,
  launchInt4Decode,
  launchInt4Linear,
} from "../../../kernels/int4-linear/int4-linear.cuda.ts";
import { launchInt4Wgmma } from "../../../kernels/int4-linear/int4-wgmma.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { GemmRunner } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer, KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { Linear } from "../weights/weight-plan.ts";
import type { Int4Memory } from "./int4.ts";
import type { GemmPlan } from "./plan-gemm.ts";

export interface Int4GemmDevice {
  readonly stream: KernelStream;
  readonly gemms: GemmRunner;
  readonly memory: Int4Memory;
}

export interface Int4GemmArgs {
  readonly x: DevicePointer; // bf16 [rows, inputs]
  readonly linear: Linear<CudaTensor>;
  readonly rows: number;
  /** bf16 [rows, outputs]; gated: [rows, outputs / 2]; of partial sums f32 [splits, rows, outputs]. */
  readonly out: DevicePointer;
  /** The activation of gated plans. */
  readonly activation: CudaActivation;
}

/** Gives the number of split-K partial sums that lie at `out`; 1 for all other plans. */
export function enqueueInt4Gemm(
  { stream, gemms, memory }: Int4GemmDevice,
  plan: GemmPlan,
  { linear, rows, out, activation, ...args }: Int4GemmArgs,
): number {
  const matrix = int4Weight(linear.weight);
  const bias = linear.bias?.address;
  const x = enqueueScaledRows(stream, memory, args.x, linear.weight, rows);
  const { counters, partials } = memory;
  const shared = { x, weight: matrix, bias, out, numRows: rows, counters, partials };
  if (plan.kernel === "int4-wgmma") {
    const { form, epilogue } = plan;
    const isPartial = epilogue === "partial-sums";
    const gatedBy = epilogue === "gated" ? activation : undefined;
    const places = isPartial ? { partials: out, keepsPartials: true } : {};
    launchInt4Wgmma(stream, { ...shared, ...places, gatedBy }, form);
    return isPartial ? form.splits : 1;
  }
  if (plan.kernel === "int4-skinny") {
    launchInt4Linear(stream, shared);
    return 1;
  }
  launchInt4Decode(stream, matrix, memory.decoded);
  const { outputs, inputs } = matrix;
  const shape = { rows, outputs, inputs, inputType: "bf16", outputType: "bf16", scales: "none" } as const;
  gemms.run({ ...shape, hasBias: bias !== undefined, x, weight: memory.decoded, y: out, bias });
  return 1;
}

/** Rows times the scales of their inputs (AWQ), where the matrix has any. */
function enqueueScaledRows(
  stream: KernelStream,
  memory: Int4Memory,
  x: DevicePointer,
  { inputScales: factors, shape }: CudaTensor,
  rows: number,
): DevicePointer {
  if (factors === undefined) return x;
  const [, width = 0] = shape;
  launchScaleColumns(stream, { type: "bf16", x, factors, out: memory.scaled, count: rows * width, width });
  return memory.scaled;
}

function int4Weight({ address, shape, scales, zeros, groupSize }: CudaTensor): Int4CudaWeight {
  const [outputs = 0, inputs = 0] = shape;
  if (scales === undefined || groupSize === undefined) throw new Error("an INT4 matrix without scales");
  return { codes: address, scales, zeros, outputs, inputs, groupSize };
}
