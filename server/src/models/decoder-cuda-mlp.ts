/** The MLP of a layer on a GPU: one for every token, or a mixture of experts. */
import { launchActivation } from "../../kernels/elementwise/elementwise.cuda.ts";
import { launchGatedMul } from "../../kernels/gated-mul/gated-mul.cuda.ts";
import { launchQuantizeRows } from "../../kernels/quantize/quantize.cuda.ts";
import type { CudaTensor } from "../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../device/cuda/kernel-stream.ts";
import { enqueueExperts } from "./decoder-cuda-experts.ts";
import { enqueueAdapted } from "./decoder-cuda-lora.ts";
import { type CudaPass, type CudaRows, type CudaScales, codesWith, takesCodes } from "./decoder-cuda-pass.ts";
import type { ExpertWeights, Mlp } from "./weight-plan.ts";

/** y[numRows, hidden] of x[numRows, hidden], of the layer of that number. Gives the scales that are left to the reader when `leavesScales`. */
export function enqueueMlp(
  pass: CudaPass,
  layer: number,
  weights: Mlp<CudaTensor> | ExpertWeights<CudaTensor>,
  x: CudaRows,
  numRows: number,
  y: DevicePointer,
  leavesScales: boolean,
): CudaScales | undefined {
  if ("router" in weights) {
    if (x.scales !== undefined) throw new Error("experts read rows, and got codes");
    enqueueExperts(pass, weights, x.address, numRows, y);
    return undefined;
  }
  const { stream, model, memory } = pass;
  const opening = { layer, linear: "mlpIn" } as const;
  const { activation, isGated, intermediateSize: width } = model.config.mlp;
  const { gateUp, activated: out } = memory;
  const { type } = model;
  const isCoded = takesCodes(model, weights.out, numRows);
  const quantized = isCoded ? codesWith(memory.codeScales) : undefined;
  if (isGated) {
    const sumScales = enqueueAdapted(pass, opening, x, weights.in, numRows, gateUp, true);
    launchGatedMul(stream, { type, activation, gateUp, sumScales, out, numRows, width, quantized });
  } else {
    enqueueAdapted(pass, opening, x, weights.in, numRows, gateUp);
    launchActivation(stream, { type, activation, x: gateUp, out: gateUp, count: numRows * width });
    if (quantized !== undefined) launchQuantizeRows(stream, { type, x: gateUp, out, quantized, numRows, width });
  }
  const active = isGated || isCoded ? out : gateUp;
  const rows = { address: active, scales: quantized?.scales };
  return enqueueAdapted(pass, { layer, linear: "mlpOut" }, rows, weights.out, numRows, y, leavesScales);
}
