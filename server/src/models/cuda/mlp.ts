/** The activations of MLPs on a GPU, with the GEMM in front of a gated one. They give rows in the form that the down projection takes. */
import { launchActivation } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { launchGatedMul } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { Linear } from "../weights/weight-plan.ts";
import { planFor, runGemm, takesFp8 } from "./gemm.ts";
import { enqueueAdapted, readerWithLora } from "./lora.ts";
import { type CudaPass, type CudaRows, codesWith } from "./pass.ts";
import { cudaActivation } from "./supported.ts";

export interface GatedLinear {
  readonly layer: number;
  /** Gate rows, then up rows. */
  readonly linear: Linear<CudaTensor>;
  /** The down projection. */
  readonly reader: Linear<CudaTensor>;
}

/** The gate and up projections of x[numRows, hidden], and the activated gate times the up rows: [numRows, intermediate]. */
export function enqueueGatedLinear(
  pass: CudaPass,
  { layer, linear, reader }: GatedLinear,
  x: CudaRows,
  numRows: number,
): CudaRows {
  const { stream, model, memory } = pass;
  const activation = cudaActivation(model.config);
  const { intermediateSize: width } = model.config.mlp;
  const { gateUp, activated: out } = memory;
  const { type } = model;
  const isCoded = takesFp8(pass, reader, numRows);
  const quantized = isCoded ? codesWith(memory.codeScales) : undefined;
  if (enqueueGated(pass, x, linear, numRows, isCoded ? gateUp : out)) {
    if (quantized !== undefined) launchQuantizeRows(stream, { type, x: gateUp, out, quantized, numRows, width });
  } else {
    const place = { layer, linear: "mlpIn" } as const;
    const left = enqueueAdapted(pass, place, x, linear, numRows, gateUp, "scales");
    launchGatedMul(stream, { type, activation, gateUp, sumScales: left?.scales, out, numRows, width, quantized });
  }
  return { address: out, scales: quantized?.scales };
}

/** The activation of x[numRows, intermediate], in place where the down projection takes no codes. */
export function enqueueActivation(
  pass: CudaPass,
  { address: x }: CudaRows,
  reader: Linear<CudaTensor>,
  numRows: number,
): CudaRows {
  const { stream, model, memory } = pass;
  const { type } = model;
  const activation = cudaActivation(model.config);
  const { intermediateSize: width } = model.config.mlp;
  launchActivation(stream, { type, activation, x, out: x, count: numRows * width });
  if (!takesFp8(pass, reader, numRows)) return { address: x };
  const quantized = codesWith(memory.codeScales);
  launchQuantizeRows(stream, { type, x, out: memory.activated, quantized, numRows, width });
  return { address: memory.activated, scales: quantized.scales };
}

/** The gate rows' activation times the up rows in the epilogue of the GEMM: [numRows, intermediate]. False where it has no such. */
function enqueueGated(
  pass: CudaPass,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  rows: number,
  y: DevicePointer,
): boolean {
  const operand = x.scales === undefined ? "activations" : "fp8";
  const plan = planFor(pass, linear, rows, { reader: readerWithLora(pass, "gate"), operand });
  if (plan.epilogue !== "gated") return false;
  runGemm(pass, plan, { x, linear, rows, y });
  return true;
}
