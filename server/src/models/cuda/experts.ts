/** A mixture of experts on a GPU: routing, the chosen experts, their weighted sum, and the shared expert. */
import { launchAdd, launchGateRows } from "../../../kernels/elementwise/elementwise.cuda.ts";
import {
  type ExpertLinearCudaArgs,
  launchExpertLinear,
  launchPlainExpertLinear,
} from "../../../kernels/expert-linear/expert-linear.cuda.ts";
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

function enqueueRoute(
  pass: CudaPass,
  { router, routerBias }: ExpertWeights<CudaTensor>,
  { numExperts, numChosen, isRenormalized }: Experts,
  { logits, ids, weights, counts, order }: ExpertsMemory,
  x: DevicePointer,
  numRows: number,
): void {
  const linear = { weight: router, bias: undefined };
  enqueueGemm(pass, { x: { address: x }, linear, rows: numRows, y: logits }, { outputType: "f32" });
  const choice = { numTokens: numRows, numExperts, numChosen, isRenormalized };
  const out = { ids, weights, lists: { counts, order } };
  launchRouteExperts(pass.stream, { type: "f32", logits, bias: routerBias?.address, ...out, ...choice });
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
  if (model.type === "f32") enqueuePlain(pass, weights, experts, memory, rows);
  else enqueueGrouped(pass, weights, experts, memory, rows);
  const { closed: x, weights: shares, counts } = memory;
  const { numRows: numTokens, y: out } = rows;
  const sum = { x, weights: shares, out, counts, numExperts, numTokens, numChosen, width: model.config.hiddenSize };
  launchMixExperts(stream, { type: model.type, ...sum });
}

/** The gated activation is the epilogue of the first GEMM. */
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
  launchExpertLinear(stream, {
    ...choices,
    ...matricesOf(weights.in, weights.inBias),
    choicesPerRow: numChosen,
    x,
    out: active,
    gatedBy: cudaExpertActivation(config),
    inputs: hiddenSize,
    outputs: intermediateSize,
  });
  launchExpertLinear(stream, {
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
): Pick<ExpertLinearCudaArgs, "weight" | "weightType" | "scales" | "bias"> {
  if (type !== "bf16" && type !== "e4m3") throw new Error(`experts of ${type}: no grouped GEMM takes them`);
  return { weight: address, weightType: type, scales, bias: bias?.address };
}

/** In f32, for exactness. */
function enqueuePlain(
  { stream, model }: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  { numChosen, intermediateSize }: Experts,
  { ids, opened, active, closed }: ExpertsMemory,
  { x, numRows }: Rows,
): void {
  const { config, type } = model;
  const { hiddenSize } = config;
  const numChoices = numRows * numChosen;
  const opening = { ...plainMatrices(weights.in, weights.inBias), inputs: hiddenSize, outputs: 2 * intermediateSize };
  launchPlainExpertLinear(stream, { ids, numChoices, choicesPerRow: numChosen, x, out: opened, ...opening });
  const gate = { gateUp: opened, out: active, numRows: numChoices, width: intermediateSize };
  launchGatedMul(stream, { type, activation: cudaExpertActivation(config), ...gate });
  const closing = { ...plainMatrices(weights.out, weights.outBias), inputs: intermediateSize, outputs: hiddenSize };
  launchPlainExpertLinear(stream, { ids, numChoices, choicesPerRow: 1, x: active, out: closed, ...closing });
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
