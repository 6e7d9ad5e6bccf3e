/** A mixture of experts on a GPU: routing, the chosen experts, their weighted sum, and the shared expert. */
import { launchAdd, launchGateRows } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { launchExpertLinear, launchGroupByExpert } from "../../../kernels/expert-linear/expert-linear.cuda.ts";
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
import { cudaActivation } from "./supported.ts";

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
  enqueueRoute(pass, weights.router, experts, memory, x, numRows);
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
  router: CudaTensor,
  { numExperts, numChosen, isRenormalized }: Experts,
  { logits, ids, weights, starts, order }: ExpertsMemory,
  x: DevicePointer,
  numRows: number,
): void {
  const linear = { weight: router, bias: undefined };
  enqueueGemm(pass, { x: { address: x }, linear, rows: numRows, y: logits }, { outputType: "f32" });
  const choice = { numTokens: numRows, numExperts, numChosen, isRenormalized };
  launchRouteExperts(pass.stream, { type: "f32", logits, ids, weights, ...choice });
  launchGroupByExpert(pass.stream, { ids, numChoices: numRows * numChosen, numExperts, starts, order });
}

function enqueueChosen(
  { stream, model }: CudaPass,
  weights: ExpertWeights<CudaTensor>,
  { numExperts, numChosen, intermediateSize }: Experts,
  memory: ExpertsMemory,
  { x, numRows, y }: Rows,
): void {
  const { type, config } = model;
  const { ids, starts, order, opened, active, closed } = memory;
  const { hiddenSize } = config;
  const numChoices = numRows * numChosen;
  const choices = { type, ids, numChoices, numExperts, starts, order };
  launchExpertLinear(stream, {
    ...choices,
    choicesPerRow: numChosen,
    x,
    weight: weights.in.address,
    out: opened,
    inputs: hiddenSize,
    outputs: 2 * intermediateSize,
  });
  const activation = cudaActivation(config);
  launchGatedMul(stream, {
    type,
    activation,
    gateUp: opened,
    out: active,
    numRows: numChoices,
    width: intermediateSize,
  });
  launchExpertLinear(stream, {
    ...choices,
    choicesPerRow: 1,
    x: active,
    weight: weights.out.address,
    out: closed,
    inputs: intermediateSize,
    outputs: hiddenSize,
  });
  const sum = { x: closed, weights: memory.weights, out: y, numTokens: numRows, numChosen, width: hiddenSize };
  launchMixExperts(stream, { type, ...sum });
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
