/**
 * The forward pass of a decoder on a GPU: the order of the kernels and GEMMs, and the memory between them. It enqueues
 * and waits for nothing, so that a pass can be captured. The engine decides the meaning of the batch.
 */
import { launchAddNorm } from "../../../kernels/add-norm/add-norm.cuda.ts";
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import type { DeferredEpilogue } from "../../../kernels/cuda/quantized-output.ts";
import { launchAdd, launchSoftCap } from "../../../kernels/elementwise/elementwise.cuda.ts";
import type { FusedLayerWeightType } from "../../../kernels/fused-layer/fused-layer.cuda.ts";
import { launchGatherRows } from "../../../kernels/gather-rows/gather-rows.cuda.ts";
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import { launchReplaceRows } from "../../../kernels/replace-rows/replace-rows.cuda.ts";
import { launchSample } from "../../../kernels/sample/sample.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { LayerWeights, Linear, Norm } from "../weights/weight-plan.ts";
import { enqueueAttention, enqueueProjected } from "./attention.ts";
import { enqueueFusedLayer, fusedLayerType } from "./fused-layer.ts";
import { enqueueGemm, takesFp8 } from "./gemm.ts";
import { enqueueAdapted, type LinearPlace } from "./lora.ts";
import { enqueueMlp } from "./mlp.ts";
import { type CudaPass, type CudaRows, codesWith, numbersAt } from "./pass.ts";
import { enqueueGatheredLogits, enqueueSum, isFirstStage, isLastStage, ownPart } from "./ranks.ts";

/** Rows that take the place of looked-up ones. */
export interface CudaReplacedRows {
  readonly rows: DevicePointer; // i32 [count]
  readonly values: DevicePointer; // [count, hidden]
  readonly count: number;
}

/** Looks the tokens up: the first rows of the residual stream. */
export function enqueueEmbedding(pass: CudaPass, replaced?: CudaReplacedRows): void {
  const { stream, model, memory, batch } = pass;
  const { config, weights, type } = model;
  if (!isFirstStage(pass)) {
    model.ranks?.receiveRows(memory.residual, batch.numTokens * config.hiddenSize, type);
    return;
  }
  const shared = { type, count: batch.numTokens, width: config.hiddenSize };
  launchGatherRows(stream, {
    ...shared,
    table: weights.embedding.address,
    numRows: config.vocabSize,
    ids: numbersAt(batch, "tokenIds"),
    carried: memory.chosen,
    out: memory.residual,
    scale: config.embeddingScale,
  });
  if (replaced !== undefined) {
    launchReplaceRows(stream, {
      type,
      x: memory.residual,
      numRows: batch.numTokens,
      width: config.hiddenSize,
      ...replaced,
    });
  }
  if (weights.positions === undefined) return;
  launchGatherRows(stream, {
    ...shared,
    table: weights.positions.address,
    numRows: weights.positions.shape[0] ?? 0,
    ids: numbersAt(batch, "positions"),
    out: memory.branch,
  });
  const count = batch.numTokens * config.hiddenSize;
  launchAdd(stream, { type, count, a: memory.residual, b: memory.branch, out: memory.residual });
}

/** From the rows of the residual stream to the normalized rows that logits are made of; undefined when none are wanted. */
export function enqueueLayers(pass: CudaPass): CudaRows | undefined {
  const { model, memory, batch } = pass;
  const { layers, norm, output } = model.weights;
  const first = layers[0];
  if (first === undefined) throw new Error("a decoder without layers");
  let rows: LayerRows = { residual: memory.residual, normed: memory.normed, numRows: batch.numTokens };
  let normed = enqueueNorm(pass, rows, { norm: first.attentionNorm }, first.qkv);
  const fusedType = fusedLayerType(pass);
  if (fusedType !== undefined) return enqueueFusedLayers(pass, fusedType, normed);
  let rest = pass;
  for (const [i, layer] of layers.entries()) {
    const isLast = i === layers.length - 1;
    let attentionOutput = enqueueAttention(pass, i, normed);
    const isEnd = isLast && isLastStage(pass);
    if (isEnd && batch.numLogitRows === 0) return undefined;
    if (isEnd && !batch.keepsAllRows) {
      [rows, attentionOutput] = keepRows(pass, rows, attentionOutput);
      rest = { ...pass, batch: { ...batch, lora: batch.keptLora } };
      normed = readAgain(pass, rows, layer, normed);
    }
    const next = layers[i + 1];
    const after = next === undefined ? { norm, reader: output } : { norm: next.attentionNorm, reader: next.qkv };
    normed = enqueueLayerRest(rest, i, layer, { ...rows, attentionOutput, read: normed }, after);
  }
  return isLastStage(pass) ? normed : handOn(pass, normed);
}

/** The MLP of some models reads what attention has read: of the kept rows that is made once more. */
function readAgain(pass: CudaPass, rows: LayerRows, layer: LayerWeights<CudaTensor>, normed: CudaRows): CudaRows {
  if (pass.model.config.residual !== "parallel") return normed;
  return enqueueNorm(pass, rows, { norm: layer.attentionNorm }, layer.qkv);
}

/** For few rows that add one token each. */
function enqueueFusedLayers(pass: CudaPass, type: FusedLayerWeightType, normed: CudaRows): CudaRows {
  const { memory, batch, model } = pass;
  const { layers, norm, output } = model.weights;
  for (let i = 0; i < layers.length; i++) {
    if (i === 0) enqueueAttention(pass, i, normed);
    else enqueueProjected(pass, i);
    enqueueFusedLayer(pass, type, i);
  }
  const rows = { residual: memory.residual, normed: memory.normed, numRows: batch.numTokens };
  return enqueueNorm(pass, rows, { norm }, output);
}

/** The next stage continues. Returns logits, if any were requested. */
function handOn({ model, memory, batch }: CudaPass, normed: CudaRows): CudaRows | undefined {
  model.ranks?.sendRows(memory.residual, batch.numTokens * model.config.hiddenSize, model.type);
  return batch.numLogitRows === 0 ? undefined : normed;
}

/** Logits of `count` of the rows that `enqueueLayers` gives, from `first` on: f32 [count, vocab]. */
export function enqueueLogits(
  pass: CudaPass,
  rows: CudaRows,
  { first, count }: { readonly first: number; readonly count: number },
  out: DevicePointer,
): void {
  const { stream, model } = pass;
  const { config, weights, type } = model;
  if (isLastStage(pass)) {
    const part = ownPart(model, count, out);
    const width = model.share?.vocabulary.count ?? config.vocabSize;
    const x = rowsFrom(rows, first, config.hiddenSize, type);
    enqueueGemm(pass, { x, linear: weights.output, rows: count, y: part }, { outputType: "f32" });
    if (config.logitSoftCap !== undefined) {
      launchSoftCap(stream, { type: "f32", x: part, out: part, count: count * width, cap: config.logitSoftCap });
    }
  }
  enqueueGatheredLogits(pass, count, out);
}

function rowsFrom({ address, scales }: CudaRows, first: number, width: number, type: ElemType): CudaRows {
  if (scales === undefined) return { address: address + BigInt(first * width * ELEM_BYTES[type]) };
  return { address: address + BigInt(first * width), scales: scales + BigInt(4 * first) };
}

/** Chooses a token for each of `count` rows of logits: i32 [count] in `memory.chosen`, f32 [count] behind them. */
export function enqueueChoice({ stream, model, memory, batch }: CudaPass, count: number): void {
  const { vocabSize } = model.config;
  launchSample(stream, {
    type: "f32",
    logits: memory.logits,
    numRows: count,
    vocab: vocabSize,
    rowStride: vocabSize,
    params: numbersAt(batch, "choices"),
    tokens: memory.chosen,
    logProbs: memory.chosen + BigInt(4 * count),
  });
}

interface LayerRows {
  readonly residual: DevicePointer;
  /** Output address of norms. */
  readonly normed: DevicePointer;
  readonly numRows: number;
}

interface NormStep {
  readonly norm: Norm<CudaTensor>;
  /** Added to the residual stream before. */
  readonly branch?: DevicePointer;
  readonly branchLeft?: DeferredEpilogue | undefined;
  /** Norm of the branch. */
  readonly postNorm?: Norm<CudaTensor> | undefined;
}

/** Gives the rows in the form that the GEMM that reads them takes. */
function enqueueNorm(
  pass: CudaPass,
  rows: LayerRows,
  { norm, branch, branchLeft, postNorm }: NormStep,
  reader: Linear<CudaTensor> | undefined,
): CudaRows {
  const { stream, model, memory } = pass;
  const { kind, epsilon } = model.config.norm;
  if (postNorm !== undefined && kind !== "rms")
    throw new Error("a norm behind a branch: expected it to be of kind rms");
  const isCoded = reader !== undefined && takesFp8(pass, reader, rows.numRows);
  const quantized = isCoded ? codesWith(memory.normScales) : undefined;
  launchAddNorm(stream, {
    type: model.type,
    residual: rows.residual,
    branch,
    branchScales: branchLeft?.scales,
    branchPartials: branchLeft?.parts,
    postWeight: postNorm?.weight.address,
    kind,
    weight: norm.weight.address,
    bias: norm.bias?.address,
    epsilon,
    out: rows.normed,
    quantized,
    numRows: rows.numRows,
    width: model.config.hiddenSize,
  });
  return { address: rows.normed, scales: quantized?.scales };
}

interface RestRows extends LayerRows {
  readonly attentionOutput: DevicePointer;
  /** Input rows of attention, for models whose MLP reads the same rows. */
  readonly read: CudaRows;
}

interface NormAfter {
  readonly norm: Norm<CudaTensor>;
  readonly reader: Linear<CudaTensor>;
}

function enqueueLayerRest(
  pass: CudaPass,
  index: number,
  layer: LayerWeights<CudaTensor>,
  rows: RestRows,
  { norm, reader }: NormAfter,
): CudaRows {
  const { stream, model, memory } = pass;
  const { branch, mlpBranch } = memory;
  const { attentionPostNorm, mlpNorm, mlpPostNorm } = layer;
  // Experts read rows as they are.
  const mlpReader = "router" in layer.mlp ? undefined : layer.mlp.in;
  const attentionOutput = attentionRows(pass, rows, layer.oProj);
  const out = { layer: index, linear: "oProj" } as const;
  if (model.config.residual === "parallel") {
    enqueueAdapted(pass, out, attentionOutput, layer.oProj, rows.numRows, branch);
    const read = mlpNorm === undefined ? rows.read : enqueueNorm(pass, rows, { norm: mlpNorm }, mlpReader);
    enqueueMlp(pass, index, layer.mlp, read, rows.numRows, mlpBranch, "complete");
    const count = rows.numRows * model.config.hiddenSize;
    launchAdd(stream, { type: model.type, count, a: branch, b: mlpBranch, out: branch });
    enqueueSum(pass, branch, rows.numRows);
    return enqueueNorm(pass, rows, { norm, branch }, reader);
  }
  if (mlpNorm === undefined) throw new Error("a layer without a norm before its MLP");
  const branchLeft = enqueueShare(pass, out, attentionOutput, layer.oProj, rows.numRows, branch);
  const between = { norm: mlpNorm, branch, branchLeft, postNorm: attentionPostNorm };
  const read = enqueueNorm(pass, rows, between, mlpReader);
  const norms = model.ranks === undefined ? "sums" : "complete";
  const mlpLeft = enqueueMlp(pass, index, layer.mlp, read, rows.numRows, mlpBranch, norms);
  enqueueSum(pass, mlpBranch, rows.numRows);
  return enqueueNorm(pass, rows, { norm, branch: mlpBranch, branchLeft: mlpLeft, postNorm: mlpPostNorm }, reader);
}

/** The GEMM, summed over the ranks that have a share in it: then no part of the epilogue can be deferred. */
function enqueueShare(
  pass: CudaPass,
  place: LinearPlace,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  rows: number,
  y: DevicePointer,
): DeferredEpilogue | undefined {
  const left = enqueueAdapted(pass, place, x, linear, rows, y, pass.model.ranks === undefined ? "sums" : "complete");
  enqueueSum(pass, y, rows);
  return left;
}

function attentionRows(pass: CudaPass, { attentionOutput, numRows }: RestRows, reader: Linear<CudaTensor>): CudaRows {
  if (!takesFp8(pass, reader, numRows)) return { address: attentionOutput };
  const { stream, model, memory } = pass;
  const { numHeads, headDim } = model.config;
  const quantized = codesWith(memory.codeScales);
  const width = numHeads * headDim;
  launchQuantizeRows(stream, { type: model.type, x: attentionOutput, out: memory.codes, quantized, numRows, width });
  return { address: memory.codes, scales: quantized.scales };
}

/** Only rows that go on to logits pass the rest of the last layer. */
function keepRows(pass: CudaPass, rows: LayerRows, attentionOutput: DevicePointer): [LayerRows, DevicePointer] {
  const { stream, model, memory, batch } = pass;
  const { hiddenSize, numHeads, headDim } = model.config;
  const { type } = model;
  const keep = (table: DevicePointer, width: number, out: DevicePointer): DevicePointer => {
    const ids = numbersAt(batch, "logitRows");
    launchGatherRows(stream, { type, table, ids, out, numRows: batch.numTokens, count: batch.numLogitRows, width });
    return out;
  };
  // Nothing reads the queries any more.
  const kept = keep(attentionOutput, numHeads * headDim, memory.queries);
  const residual = keep(rows.residual, hiddenSize, memory.keptResidual);
  return [{ residual, normed: rows.normed, numRows: batch.numLogitRows }, kept];
}
