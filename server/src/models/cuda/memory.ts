/**
 * GPU memory of a decoder, counted before anything is allocated: activations, the paged cache, the inputs of a step.
 * Pure.
 */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { gridBarrierBytes } from "../../../kernels/fused-layer/fused-layer.cuda.ts";
import { splitKPartialsBytes } from "../../../kernels/wgmma-gemm/wgmma-plan.ts";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { planRegions, type RegionPlan } from "../../device/cuda/regions.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { choiceBytes } from "./choice-layout.ts";

export interface StepBounds {
  /** Tokens of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** Rows of logits made at a time. */
  readonly maxLogitRows: number;
}

type Activation =
  | "residual"
  | "normed"
  | "branch"
  | "mlpBranch"
  | "keptResidual"
  | "qkv"
  | "queries"
  | "attentionOutput"
  | "gateUp"
  | "activated"
  | "codes"
  | "normScales"
  | "codeScales"
  | "logits"
  | "chosen"
  | "tokenCounts"
  | "logitBiases"
  | "tokenMasks"
  | "attentionScratch"
  | "gridBarrier"
  | "splitKPartials";

/** Address of each. Rows have room for the padding of GEMMs. */
export type CudaActivations = Readonly<Record<Activation, DevicePointer>>;
export type ActivationsPlan = RegionPlan<Activation>;

/** Memory for the tables of rules, at most: 523 and 65 requests with a vocabulary of 128,256. */
const COUNT_TABLE_BYTES = 128 << 20;
const BIAS_TABLE_BYTES = 32 << 20;
const COUNT_BYTES = 2;
const BIAS_BYTES = 4;

/** How many sequences can have token counts, and biases, on the device. */
export function planRuleTables(
  vocabSize: number,
  maxSequences: number,
): { readonly numCountRows: number; readonly numBiasRows: number } {
  const rowsIn = (numBytes: number, elementBytes: number): number =>
    Math.min(maxSequences, Math.floor(numBytes / (elementBytes * vocabSize)));
  return {
    numCountRows: rowsIn(COUNT_TABLE_BYTES, COUNT_BYTES),
    numBiasRows: rowsIn(BIAS_TABLE_BYTES, BIAS_BYTES),
  };
}

export function planActivations(
  config: DecoderConfig,
  type: ElemType,
  bounds: StepBounds,
  attentionScratchBytes: number,
): ActivationsPlan {
  const { hiddenSize, numHeads, numKvHeads, headDim, mlp, vocabSize } = config;
  const paddedRows = gemmRows(bounds.maxTokens, true);
  const rows = paddedRows * ELEM_BYTES[type];
  const ruleTables = planRuleTables(vocabSize, bounds.maxSequences);
  const inner = mlp.isGated ? 2 * mlp.intermediateSize : mlp.intermediateSize;
  return planRegions({
    residual: rows * hiddenSize,
    normed: rows * hiddenSize,
    branch: rows * hiddenSize,
    mlpBranch: rows * hiddenSize,
    keptResidual: rows * hiddenSize,
    qkv: rows * (numHeads + 2 * numKvHeads) * headDim,
    queries: rows * numHeads * headDim,
    attentionOutput: rows * numHeads * headDim,
    gateUp: rows * inner,
    activated: rows * mlp.intermediateSize,
    // Rows and scales of FP8 GEMMs, beside those that norms and activations give.
    codes: paddedRows * numHeads * headDim,
    normScales: 4 * paddedRows,
    codeScales: 4 * paddedRows,
    logits: gemmRows(bounds.maxLogitRows, true) * vocabSize * 4,
    chosen: choiceBytes(bounds.maxLogitRows, true),
    tokenCounts: ruleTables.numCountRows * COUNT_BYTES * vocabSize,
    logitBiases: ruleTables.numBiasRows * BIAS_BYTES * vocabSize,
    // A bit a token, for each row of logits that a guide rules.
    tokenMasks: bounds.maxLogitRows * 4 * Math.ceil(vocabSize / 32),
    attentionScratch: attentionScratchBytes,
    // Results that blocks of the fused layer kernel publish: zeros at first.
    gridBarrier: gridBarrierBytes({ width: hiddenSize, inner: mlp.intermediateSize }),
    // Split-K partial sums that GEMMs leave to their readers.
    splitKPartials: splitKPartialsBytes(Math.max(hiddenSize, (numHeads + 2 * numKvHeads) * headDim)),
  });
}
