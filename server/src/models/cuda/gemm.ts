/** Enqueues GEMMs as plan-gemm.ts decides them. It knows no layer. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import type { DeferredEpilogue, SumScales } from "../../../kernels/cuda/quantized-output.ts";
import { launchSkinnyGemm } from "../../../kernels/skinny-gemm/skinny-gemm.cuda.ts";
import { launchWgmmaGemm } from "../../../kernels/wgmma-gemm/wgmma-gemm.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { Linear } from "../weights/weight-plan.ts";
import { enqueueInt4Gemm } from "./int4-gemm.ts";
import type { CudaPass, CudaRows } from "./pass.ts";
import { type GemmPlan, type GemmUse, planGemm } from "./plan-gemm.ts";
import { cudaActivation } from "./supported.ts";

/** y[rows, outputs] = x[rows, inputs] . weight^T + bias */
export interface GemmArgs {
  readonly x: CudaRows;
  readonly linear: Linear<CudaTensor>;
  readonly rows: number;
  readonly y: DevicePointer;
}

/** The plan for rows that have no form yet: producers ask it what to write. */
export function planFor(
  { stream, model }: CudaPass,
  linear: Linear<CudaTensor>,
  rows: number,
  use: GemmUse = {},
): GemmPlan {
  const { arch, numSms } = stream;
  const { type, isDeterministic } = model;
  return planGemm(linear, rows, { arch, numSms, type, isDeterministic }, use);
}

/** Whether the GEMM of so many rows with the matrix takes them as FP8 codes. */
export function takesFp8(pass: CudaPass, linear: Linear<CudaTensor>, rows: number): boolean {
  return planFor(pass, linear, rows).operand === "fp8";
}

/** Plans for the form that the rows have, and enqueues. Gives the part of the epilogue that is deferred to the reader. */
export function enqueueGemm(
  pass: CudaPass,
  args: GemmArgs,
  use: Omit<GemmUse, "operand"> = {},
): DeferredEpilogue | undefined {
  const operand = args.x.scales === undefined ? "activations" : "fp8";
  return runGemm(pass, planFor(pass, args.linear, args.rows, { ...use, operand }), args, use.outputType);
}

/** Executes a plan. `y` of a gated one: [rows, outputs / 2]. */
export function runGemm(
  pass: CudaPass,
  plan: GemmPlan,
  args: GemmArgs,
  outputType: ElemType = pass.model.type,
): DeferredEpilogue | undefined {
  switch (plan.kernel) {
    case "skinny":
      return runSkinny(pass, plan.weightType, args, outputType);
    case "wgmma":
      return runWgmma(pass, plan, args);
    case "cublaslt":
      return runCublasLt(pass, plan, args, outputType);
    default:
      return runInt4(pass, plan, args);
  }
}

function runSkinny(
  { stream }: CudaPass,
  weightType: "bf16" | "e4m3",
  { x, linear: { weight, bias }, rows, y }: GemmArgs,
  outputType: ElemType,
): undefined {
  const [outputs = 0, inputs = 0] = weight.shape;
  launchSkinnyGemm(stream, {
    x: x.address,
    weight: weight.address,
    weightType,
    scales: weight.scales,
    bias: bias?.address,
    out: y,
    outputType,
    numRows: rows,
    outputs,
    inputs,
  });
}

function runWgmma(
  { stream, model, memory }: CudaPass,
  { form, epilogue, weightType }: Extract<GemmPlan, { readonly kernel: "wgmma" }>,
  { x, linear: { weight, bias }, rows, y }: GemmArgs,
): DeferredEpilogue | undefined {
  const [matrixRows = 0, inputs = 0] = weight.shape;
  const isGated = epilogue === "gated";
  const isPartial = epilogue === "partial-sums";
  const scales = scalesOf(x, weight);
  launchWgmmaGemm(
    stream,
    {
      weightType,
      numRows: rows,
      outputs: isGated ? matrixRows / 2 : matrixRows,
      inputs,
      x: x.address,
      weight: weight.address,
      bias: bias?.address,
      out: isPartial ? memory.splitKPartials : y,
      gatedBy: isGated ? cudaActivation(model.config) : undefined,
      scales,
    },
    form,
  );
  return isPartial ? { scales, parts: { address: memory.splitKPartials, count: form.splits } } : undefined;
}

function runCublasLt(
  { gemms, model }: CudaPass,
  { operand, epilogue }: GemmPlan,
  { x, linear: { weight, bias }, rows, y }: GemmArgs,
  outputType: ElemType,
): DeferredEpilogue | undefined {
  const [outputs = 0, inputs = 0] = weight.shape;
  const isFp8 = operand === "fp8";
  const shape = { rows, outputs, inputs, inputType: isFp8 ? "e4m3" : model.type, outputType } as const;
  const addresses = { x: x.address, weight: weight.address, y };
  if (epilogue === "unscaled") {
    gemms.run({ ...shape, hasBias: false, scales: "none", ...addresses });
    return { scales: scalesOf(x, weight) };
  }
  gemms.run({
    ...shape,
    hasBias: bias !== undefined,
    scales: isFp8 ? "rows" : "none",
    ...addresses,
    bias: bias?.address,
    xScale: x.scales,
    weightScale: weight.scales,
  });
  return undefined;
}

function runInt4(
  { stream, gemms, model, memory }: CudaPass,
  plan: GemmPlan,
  args: GemmArgs,
): DeferredEpilogue | undefined {
  if (model.int4 === undefined) throw new Error("an INT4 GEMM without workspaces");
  const { x, linear, rows, y } = args;
  const isPartial = plan.epilogue === "partial-sums";
  const addresses = { x: x.address, out: isPartial ? memory.splitKPartials : y };
  const activation = cudaActivation(model.config);
  const splits = enqueueInt4Gemm({ stream, gemms, memory: model.int4 }, plan, {
    ...addresses,
    linear,
    rows,
    activation,
  });
  return isPartial ? { parts: { address: memory.splitKPartials, count: splits } } : undefined;
}

function scalesOf({ scales: rows }: CudaRows, { type, scales: columns }: CudaTensor): SumScales | undefined {
  if (type !== "e4m3") return undefined;
  if (rows === undefined || columns === undefined) throw new Error("a GEMM of FP8 codes without scales");
  return { rows, columns };
}
