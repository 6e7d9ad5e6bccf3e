/**
 * The operations of a decoder's pass on a GPU: kernels and GEMMs, and the memory between them. They enqueue and wait for
 * nothing, so that a pass can be captured.
 */
import { launchAddNorm } from "../../../kernels/add-norm/add-norm.cuda.ts";
import { launchAdd } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { launchGatherRows } from "../../../kernels/gather-rows/gather-rows.cuda.ts";
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { LoraLinear } from "../../formats/lora/lora-adapter.ts";
import type { DecoderOps, LinearReader, NormedRows, NormStep } from "../decoder/decoder-ops.ts";
import type { ExpertWeights, Linear } from "../weights/weight-plan.ts";
import { enqueueReads, enqueueRopeStore } from "./attention.ts";
import { type CudaReplacedRows, enqueueEmbedding } from "./embedding.ts";
import { enqueueExperts } from "./experts.ts";
import { enqueueFusedLayer, fusedLayerType } from "./fused-layer.ts";
import { takesFp8 } from "./gemm.ts";
import { enqueueAdapted } from "./lora.ts";
import { enqueueActivation, enqueueGatedLinear } from "./mlp.ts";
import { type CudaBatch, type CudaPass, type CudaRows, codesWith, numbersAt } from "./pass.ts";
import type { GemmReader } from "./plan-gemm.ts";
import { enqueueSum, isLastStage } from "./ranks.ts";

type Ops = DecoderOps<CudaTensor, CudaRows>;
type Step = NormStep<CudaTensor, CudaRows>;
type Normed = NormedRows<CudaRows>;

export class CudaDecoderOps implements Ops {
  readonly logitRows: Ops["logitRows"];
  readonly fusedLayer: Ops["fusedLayer"];
  readonly handOn: Ops["handOn"];
  readonly #replaced: CudaReplacedRows | undefined;
  /** Its LoRA tiles are those of the kept rows after `keepRows()`. */
  #pass: CudaPass;
  #numRows: number;

  constructor(pass: CudaPass, replaced: CudaReplacedRows | undefined) {
    this.#pass = pass;
    this.#replaced = replaced;
    this.#numRows = pass.batch.numTokens;
    this.logitRows = logitRowsOf(pass.batch);
    this.fusedLayer = fusedLayerOf(pass);
    this.handOn = isLastStage(pass) ? undefined : (residual): void => sendRows(pass, residual);
  }

  embed(): CudaRows {
    enqueueEmbedding(this.#pass, this.#replaced);
    return { address: this.#pass.memory.residual };
  }

  /** The residual stream is updated in place. */
  addNorm(residual: CudaRows, step: Step): Normed {
    if (step.branch !== undefined) enqueueSum(this.#pass, step.branch.address, this.#numRows);
    return { residual, normed: enqueueNorm(this.#pass, residual.address, this.#numRows, step) };
  }

  linear(layer: number, name: LoraLinear, weights: Linear<CudaTensor>, x: CudaRows, reader: LinearReader): CudaRows {
    const pass = this.#pass;
    const rows = name === "oProj" ? attentionRows(pass, x, weights, this.#numRows) : x;
    const address = outputOf(pass, name);
    const place = { layer, linear: name };
    const deferred = enqueueAdapted(pass, place, rows, weights, this.#numRows, address, gemmReader(pass, reader));
    return { address, deferred };
  }

  rotateAndStore(layer: number, qkv: CudaRows): CudaRows {
    return enqueueRopeStore(this.#pass, layer, qkv);
  }

  attend(layer: number, queries: CudaRows): CudaRows {
    return enqueueReads(this.#pass, layer, queries);
  }

  /** In decode steps of few rows it is the attention kernel that stores. */
  fillCache(layer: number, qkv: CudaRows): void {
    this.attend(layer, this.rotateAndStore(layer, qkv));
  }

  keepRows(residual: CudaRows, attended: CudaRows): { readonly residual: CudaRows; readonly attended: CudaRows } {
    const { model, memory, batch } = this.#pass;
    const { hiddenSize, numHeads, headDim } = model.config;
    // Nothing reads the queries any more.
    const kept = enqueueKept(this.#pass, attended.address, numHeads * headDim, memory.queries);
    const keptResidual = enqueueKept(this.#pass, residual.address, hiddenSize, memory.keptResidual);
    this.#numRows = batch.numLogitRows;
    this.#pass = { ...this.#pass, batch: { ...batch, lora: batch.keptLora } };
    return { residual: keptResidual, attended: kept };
  }

  gatedLinear(layer: number, linear: Linear<CudaTensor>, x: CudaRows, reader: Linear<CudaTensor>): CudaRows {
    return enqueueGatedLinear(this.#pass, { layer, linear, reader }, x, this.#numRows);
  }

  activate(x: CudaRows, reader: Linear<CudaTensor>): CudaRows {
    return enqueueActivation(this.#pass, x, reader, this.#numRows);
  }

  experts(weights: ExpertWeights<CudaTensor>, x: CudaRows): CudaRows {
    if (x.scales !== undefined) throw new Error("experts read rows, and got codes");
    const { mlpBranch } = this.#pass.memory;
    enqueueExperts(this.#pass, weights, x.address, this.#numRows, mlpBranch);
    return { address: mlpBranch };
  }

  /** Branches first, for one all-reduce: residual + (attention + MLP). */
  joinBranches(residual: CudaRows, branch: CudaRows, mlp: CudaRows, { norm, reader }: Step): Normed {
    const { stream, model } = this.#pass;
    const count = this.#numRows * model.config.hiddenSize;
    launchAdd(stream, { type: model.type, count, a: branch.address, b: mlp.address, out: branch.address });
    return this.addNorm(residual, { norm, reader, branch });
  }
}

function logitRowsOf({ numLogitRows, keepsAllRows }: CudaBatch): Ops["logitRows"] {
  if (numLogitRows === 0) return "none";
  return keepsAllRows ? "all" : "some";
}

function fusedLayerOf(pass: CudaPass): Ops["fusedLayer"] {
  const weightType = fusedLayerType(pass);
  if (weightType === undefined) return undefined;
  const qkv = { address: pass.memory.qkv };
  return (layer) => {
    enqueueFusedLayer(pass, weightType, layer);
    return qkv;
  };
}

function sendRows({ model, batch }: CudaPass, { address }: CudaRows): void {
  model.ranks?.sendRows(address, batch.numTokens * model.config.hiddenSize, model.type);
}

function outputOf({ memory }: CudaPass, name: LoraLinear): DevicePointer {
  switch (name) {
    case "qkv":
      return memory.qkv;
    case "oProj":
      return memory.branch;
    case "mlpIn":
      return memory.gateUp;
    default:
      return memory.mlpBranch;
  }
}

/** Ranks add up complete results. */
function gemmReader({ model }: CudaPass, reader: LinearReader): GemmReader {
  if (reader === "rotateAndStore") return "sums";
  return reader === "addNorm" && model.ranks === undefined ? "sums" : "complete";
}

/** The attention output in the form that its projection takes. */
function attentionRows(pass: CudaPass, x: CudaRows, reader: Linear<CudaTensor>, numRows: number): CudaRows {
  if (!takesFp8(pass, reader, numRows)) return x;
  const { stream, model, memory } = pass;
  const { numHeads, headDim } = model.config;
  const quantized = codesWith(memory.codeScales);
  const width = numHeads * headDim;
  launchQuantizeRows(stream, { type: model.type, x: x.address, out: memory.codes, quantized, numRows, width });
  return { address: memory.codes, scales: quantized.scales };
}

/** The rows of `table` whose logits are wanted. */
function enqueueKept(
  { stream, model: { type }, batch }: CudaPass,
  table: DevicePointer,
  width: number,
  out: DevicePointer,
): CudaRows {
  const ids = numbersAt(batch, "logitRows");
  launchGatherRows(stream, { type, table, ids, out, numRows: batch.numTokens, count: batch.numLogitRows, width });
  return { address: out };
}

/** Gives the rows in the form that the GEMM that reads them takes. */
function enqueueNorm(
  pass: CudaPass,
  residual: DevicePointer,
  numRows: number,
  { norm, reader, branch, postNorm }: Step,
): CudaRows {
  const { stream, model, memory } = pass;
  const { residualScale } = model.config;
  const { kind, epsilon } = model.config.norm;
  if (norm === undefined) throw new Error("rows that are read without a norm");
  if (postNorm !== undefined && kind !== "rms")
    throw new Error("a norm behind a branch: expected it to be of kind rms");
  const isCoded = reader !== undefined && takesFp8(pass, reader, numRows);
  const quantized = isCoded ? codesWith(memory.normScales) : undefined;
  const deferred = branch?.deferred;
  launchAddNorm(stream, {
    type: model.type,
    residual,
    branch: branch?.address,
    branchScales: deferred?.scales,
    branchPartials: deferred?.parts,
    branchScale: residualScale,
    postWeight: postNorm?.weight.address,
    kind,
    weight: norm.weight.address,
    bias: norm.bias?.address,
    epsilon,
    out: memory.normed,
    quantized,
    numRows,
    width: model.config.hiddenSize,
  });
  return { address: memory.normed, scales: quantized?.scales };
}
