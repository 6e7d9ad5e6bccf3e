/** A mixture of experts on a GPU: routing, the chosen experts, their weighted sum, and the shared expert. */
import { launchAdd, launchGateRows } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { type ExpertGemmCudaArgs, launchExpertGemm } from "../../../kernels/expert-gemm/expert-gemm.cuda.ts";
import { launchExpertLinear } from "../../../kernels/expert-linear/expert-linear.cuda.ts";
import { launchGatedMul } from "../../../kernels/gated-mul/gated-mul.cuda.ts";
import { launchMixExperts } from "../../../kernels/mix-experts/mix-experts.cuda.ts";
import { launchRouteExperts } from "../../../kernels/route-experts/route-experts.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { Experts } from "../config/decoder-config.ts";
import type { ExpertWeights, Linear } from "../weights/weight-plan.ts";
import type { ExpertsMemory } from "./experts-memory.ts";
import { enqueueGemm } from "./gemm.ts";
import type { CudaPass } from "./pass.ts";
import { cudaActivation, cudaExpertActivation } from "./supported.ts";

/** y[numRows, hidden] of x[numRows, hidden] */
export function enqueueExperts(
  pass: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  x: DevicePointer,
  numRows: number,
  y: DevicePointer,
): void {
  const { experts, mlp } = pass.model.config;
  const memory = pass.model.experts;
  if (experts === undefined || memory === undefined) throw new Error("a layer of experts without memory for them");
  if (!mlp.isGated) throw new Error("experts without a gate: no architecture has them");
  enqueueRoute(pass, weights, experts, memory, x, numRows);
  enqueueChosen(pass, weights, experts, memory, { x, numRows, y });
  if (weights.shared !== undefined) enqueueShared(pass, weights.shared, experts, memory, { x, numRows, y });
}

interface Rows {
  readonly x: DevicePointer;
  readonly numRows: number;
  readonly y: DevicePointer;
}

/** Whether the grouped GEMMs of kernels/expert-gemm serve, with lists of the router: they take bf16 activations. */
function usesLists({ model }: CudaPass): boolean {
  return model.type === "bf16";
}

function enqueueRoute(
  pass: CudaPass,
  experts: ExpertWeights<CudaTensor>,
  { numExperts, numChosen, isRenormalized }: Experts,
  { logits, ids, weights, counts, order }: ExpertsMemory,
  x: DevicePointer,
  numRows: number,
): void {
  const linear = { weight: experts.router, bias: undefined };
  enqueueGemm(pass, { x: { address: x }, linear, rows: numRows, y: logits }, { outputType: "f32" });
  const choice = { numTokens: numRows, numExperts, numChosen, isRenormalized };
  const lists = usesLists(pass) ? { counts, order } : undefined;
  const bias = experts.routerBias?.address;
  launchRouteExperts(pass.stream, { type: "f32", logits, bias, ids, weights, lists, ...choice });
}

function enqueueChosen(
  pass: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  experts: Experts,
  memory: ExpertsMemory,
  rows: Rows,
): void {
  const { stream, model } = pass;
  const { numExperts, numChosen } = experts;
  const hasLists = usesLists(pass);
  if (hasLists) enqueueGrouped(pass, weights, experts, memory, rows);
  else enqueuePlain(pass, weights, experts, memory, rows);
  const { closed: x, weights: shares, counts } = memory;
  const { numRows: numTokens, y: out } = rows;
  const lists = hasLists ? { counts, numExperts } : undefined;
  const sum = { x, weights: shares, out, lists, numTokens, numChosen, width: model.config.hiddenSize };
  launchMixExperts(stream, { type: model.type, ...sum });
}

/** By the lists of the router. The gated activation is the epilogue of the first GEMM. */
function enqueueGrouped(
  { stream, model }: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  { numExperts, numChosen, intermediateSize }: Experts,
  { counts, order, active, closed }: ExpertsMemory,
  { x, numRows }: Rows,
): void {
  const { config, isDeterministic } = model;
  const { hiddenSize } = config;
  const numChoices = numRows * numChosen;
  const choices = { lists: { counts, order }, numTokens: numRows, numChoices, numExperts, isDeterministic };
  launchExpertGemm(stream, {
    ...choices,
    ...matricesOf(weights.in, weights.inBias),
    choicesPerRow: numChosen,
    x,
    out: active,
    gatedBy: cudaExpertActivation(config),
    inputs: hiddenSize,
    outputs: intermediateSize,
  });
  launchExpertGemm(stream, {
    ...choices,
    ...matricesOf(weights.out, weights.outBias),
    choicesPerRow: 1,
    x: active,
    out: closed,
    followsGemm: true,
    inputs: intermediateSize,
    outputs: hiddenSize,
  });
}

function matricesOf(
  { address, type, scales }: CudaTensor,
  bias: CudaTensor | undefined,
): Pick<ExpertGemmCudaArgs, "weight" | "weightType" | "scales" | "bias"> {
  if (type !== "bf16" && type !== "e4m3" && type !== "mxfp4")
    throw new Error(`experts of ${type}: no grouped GEMM takes them`);
  return { weight: address, weightType: type, scales, bias: bias?.address };
}

/** Each choice by itself, in f32. */
function enqueuePlain(
  { stream, model }: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  { numChosen, intermediateSize }: Experts,
  { ids, opened, active, closed }: ExpertsMemory,
  { x, numRows }: Rows,
): void {
  const { type, config } = model;
  const { hiddenSize } = config;
  const numChoices = numRows * numChosen;
  const choices = { ids, numChoices };
  launchExpertLinear(stream, {
    ...choices,
    ...plainMatrices(weights.in, weights.inBias),
    choicesPerRow: numChosen,
    x,
    out: opened,
    inputs: hiddenSize,
    outputs: 2 * intermediateSize,
  });
  const gate = { gateUp: opened, out: active, numRows: numChoices, width: intermediateSize };
  launchGatedMul(stream, { type, activation: cudaExpertActivation(config), ...gate });
  launchExpertLinear(stream, {
    ...choices,
    ...plainMatrices(weights.out, weights.outBias),
    choicesPerRow: 1,
    x: active,
    out: closed,
    inputs: intermediateSize,
    outputs: hiddenSize,
  });
}

function plainMatrices(
  { address }: CudaTensor,
  bias: CudaTensor | undefined,
): { readonly weight: DevicePointer; readonly bias: DevicePointer | undefined } {
  return { weight: address, bias: bias?.address };
}

/** Adds the output of the shared expert, times the sigmoid of its gate if it has one, to y. */
function enqueueShared(
  pass: CudaPass,
  { mlp, gate }: NonNullable<ExpertWeights<CudaTensor>["shared"]>,
  { sharedIntermediateSize: width }: Experts,
  { sharedOpened, sharedActive, sharedClosed, sharedGate }: ExpertsMemory,
  { x, numRows, y }: Rows,
): void {
  const { stream, model } = pass;
  const { type, config } = model;
  const gemm = (input: DevicePointer, linear: Linear<CudaTensor>, out: DevicePointer): void => {
    enqueueGemm(pass, { x: { address: input }, linear, rows: numRows, y: out });
  };
  gemm(x, mlp.in, sharedOpened);
  const activation = cudaActivation(config);
  launchGatedMul(stream, { type, activation, gateUp: sharedOpened, out: sharedActive, numRows, width });
  gemm(sharedActive, mlp.out, sharedClosed);
  const rows = { type, count: numRows * config.hiddenSize };
  if (gate !== undefined) {
    gemm(x, { weight: gate, bias: undefined }, sharedGate);
    const { hiddenSize: width } = config;
    launchGateRows(stream, { ...rows, x: sharedClosed, gate: sharedGate, out: sharedClosed, width });
  }
  launchAdd(stream, { ...rows, a: y, b: sharedClosed, out: y });
}
