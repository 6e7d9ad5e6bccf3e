/**
 * Products of some tens of rows in the forward pass on a GPU that has products of warp groups: complete, with scales and bias,
 * in one kernel that reads weights ahead. Says for which products that kernel is written. It knows no layer.
 */
import type { LeftSums, SumScales } from "../../../kernels/cuda/quantized-output.ts";
import { groupFormOf, launchGroupLinear } from "../../../kernels/group-linear/group-linear.cuda.ts";
import type { GroupForm } from "../../../kernels/group-linear/group-plan.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { Linear } from "../weights/weight-plan.ts";
import { enqueueInt4Gated, enqueueInt4Parts } from "./int4.ts";
import type { CudaPass, CudaRows } from "./pass.ts";

/** Fewer rows are multiplied by a kernel that takes them as they are. */
const MIN_ROWS = 9;

/** How that product is spread; undefined where it is none for the kernel. */
export function groupForm(
  { stream, model }: CudaPass,
  { weight }: Linear<CudaTensor>,
  numRows: number,
  { isGated = false, leavesParts = false }: { readonly isGated?: boolean; readonly leavesParts?: boolean } = {},
): GroupForm | undefined {
  const { type: weightType, shape } = weight;
  const isWritten = model.type === "bf16" && model.isDeterministic !== true && numRows >= MIN_ROWS;
  if (!isWritten || (weightType !== "bf16" && weightType !== "e4m3")) return undefined;
  const [matrixRows = 0, inputs = 0] = shape;
  return groupFormOf(stream, { weightType, numRows, matrixRows, inputs, isGated, leavesParts });
}

export function enqueueGroupProduct(
  { stream }: CudaPass,
  x: CudaRows,
  { weight, bias }: Linear<CudaTensor>,
  numRows: number,
  out: DevicePointer,
  form: GroupForm,
): void {
  const [outputs = 0, inputs = 0] = weight.shape;
  const sizes = { weightType: weight.type === "e4m3" ? "e4m3" : "bf16", numRows, outputs, inputs } as const;
  const addresses = { x: x.address, weight: weight.address, bias: bias?.address, out };
  launchGroupLinear(stream, { ...sizes, ...addresses, scales: scalesOf(x, weight) }, form);
}

/** The product for a reader that scales and adds up itself; undefined where that is not done. */
export function enqueueGroupParts(
  pass: CudaPass,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  numRows: number,
): LeftSums | undefined {
  if (linear.bias !== undefined || pass.batch.lora !== undefined) return undefined;
  if (linear.weight.type === "int4") return enqueueInt4(pass, x, linear.weight, numRows);
  const form = groupForm(pass, linear, numRows, { leavesParts: true });
  if (form === undefined || form.splits === 1) return undefined;
  const { sumParts } = pass.memory;
  enqueueGroupProduct(pass, x, linear, numRows, sumParts, form);
  return { scales: scalesOf(x, linear.weight), parts: { address: sumParts, count: form.splits } };
}

function enqueueInt4(
  { stream, model, memory: { sumParts } }: CudaPass,
  x: CudaRows,
  weight: CudaTensor,
  rows: number,
): LeftSums | undefined {
  if (model.int4 === undefined || model.isDeterministic === true) return undefined;
  const count = enqueueInt4Parts(stream, model.int4, { x: x.address, weight, rows }, sumParts);
  return count === undefined ? undefined : { parts: { address: sumParts, count } };
}

/** The gate columns activated, times the others: bf16 [numRows, half of the outputs]. False where nothing was done. */
export function enqueueGatedProduct(
  pass: CudaPass,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  numRows: number,
  out: DevicePointer,
): boolean {
  const { weight, bias } = linear;
  const { model } = pass;
  if (weight.type === "int4") {
    const isPlain = bias === undefined && pass.batch.lora === undefined && model.isDeterministic !== true;
    if (!isPlain || model.int4 === undefined) return false;
    const product = { x: x.address, weight, rows: numRows, y: out };
    return enqueueInt4Gated(pass.stream, model.int4, product, model.config.mlp.activation);
  }
  const form = groupForm(pass, linear, numRows, { isGated: true });
  if (form === undefined || bias !== undefined || pass.batch.lora !== undefined) return false;
  const [matrixRows = 0, inputs = 0] = weight.shape;
  const weightType = weight.type === "e4m3" ? "e4m3" : "bf16";
  const sizes = { weightType, numRows, outputs: matrixRows / 2, inputs } as const;
  const addresses = { x: x.address, weight: weight.address, out };
  const gatedBy = pass.model.config.mlp.activation;
  launchGroupLinear(pass.stream, { ...sizes, ...addresses, gatedBy, scales: scalesOf(x, weight) }, form);
  return true;
}

function scalesOf({ scales: rows }: CudaRows, { type, scales: columns }: CudaTensor): SumScales | undefined {
  if (type !== "e4m3") return undefined;
  if (rows === undefined || columns === undefined) throw new Error("a product of codes without scales");
  return { rows, columns };
}
