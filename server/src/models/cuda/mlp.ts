/** The MLP of a layer on a GPU: one for every token, or a mixture of experts. */
import type { DeferredEpilogue } from "../../../kernels/cuda/quantized-output.ts";
import { launchActivation } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { launchGatedMul } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { ExpertWeights, Linear, Mlp } from "../weights/weight-plan.ts";
import { enqueueExperts } from "./experts.ts";
import { planFor, runGemm, takesFp8 } from "./gemm.ts";
import { enqueueAdapted, readerWithLora } from "./lora.ts";
import { type CudaPass, type CudaRows, codesWith } from "./pass.ts";
import type { GemmReader } from "./plan-gemm.ts";

/** y[numRows, hidden] of x[numRows, hidden], of the layer of that number. Gives the part of the epilogue that is deferred to the reader. */
export function enqueueMlp(
  pass: CudaPass,
  layer: number,
  weights: Mlp<CudaTensor> | ExpertWeights<CudaTensor>,
  x: CudaRows,
  numRows: number,
  y: DevicePointer,
  reader: GemmReader,
): DeferredEpilogue | undefined {
  if ("router" in weights) {
    if (x.scales !== undefined) throw new Error("experts read rows, and got codes");
    enqueueExperts(pass, weights, x.address, numRows, y);
    return undefined;
  }
  const { active, scales } = enqueueActivated(pass, layer, weights, x, numRows);
  const rows = { address: active, scales };
  return enqueueAdapted(pass, { layer, linear: "mlpOut" }, rows, weights.out, numRows, y, reader);
}

/** The input of the down projection. */
function enqueueActivated(
  pass: CudaPass,
  layer: number,
  weights: Mlp<CudaTensor>,
  x: CudaRows,
  numRows: number,
): { readonly active: DevicePointer; readonly scales?: DevicePointer | undefined } {
  const { stream, model, memory } = pass;
  const opening = { layer, linear: "mlpIn" } as const;
  const { activation, isGated, intermediateSize: width } = model.config.mlp;
  const { gateUp, activated: out } = memory;
  const { type } = model;
  const isCoded = takesFp8(pass, weights.out, numRows);
  const quantized = isCoded ? codesWith(memory.codeScales) : undefined;
  const scales = quantized?.scales;
  if (isGated && enqueueGated(pass, x, weights.in, numRows, isCoded ? gateUp : out)) {
    if (quantized !== undefined) launchQuantizeRows(stream, { type, x: gateUp, out, quantized, numRows, width });
    return { active: out, scales };
  }
  if (isGated) {
    const left = enqueueAdapted(pass, opening, x, weights.in, numRows, gateUp, "scales");
    launchGatedMul(stream, { type, activation, gateUp, sumScales: left?.scales, out, numRows, width, quantized });
    return { active: out, scales };
  }
  enqueueAdapted(pass, opening, x, weights.in, numRows, gateUp);
  launchActivation(stream, { type, activation, x: gateUp, out: gateUp, count: numRows * width });
  if (quantized === undefined) return { active: gateUp };
  launchQuantizeRows(stream, { type, x: gateUp, out, quantized, numRows, width });
  return { active: out, scales };
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
