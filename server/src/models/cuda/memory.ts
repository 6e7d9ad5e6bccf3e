/**
 * What a decoder takes of a GPU's memory, counted before anything is allocated: activations, the paged cache, the numbers of
 * a step. Pure.
 */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { groupPartsBytes } from "../../../kernels/group-linear/group-plan.ts";
import { thinMeetingBytes } from "../../../kernels/thin-layer/thin-layer.cuda.ts";
import { layOut } from "../../device/cuda/cuda-tensor.ts";
import { productRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

export interface StepBounds {
  /** Tokens of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** Rows of logits made at a time. */
  readonly maxLogitRows: number;
}

const PARTS = [
  "residual",
  "normed",
  "branch",
  "mlpBranch",
  "keptResidual",
  "qkv",
  "queries",
  "attended",
  "gateUp",
  "activated",
  "codes",
  "normScales",
  "codeScales",
  "logits",
  "chosen",
  "attentionScratch",
  "meeting",
  "sumParts",
] as const;
type Part = (typeof PARTS)[number];

/** Where each is. Rows have room for what products round up to. */
export type CudaActivations = Readonly<Record<Part, DevicePointer>>;

export interface ActivationsPlan {
  readonly offsets: Readonly<Record<Part, number>>;
  readonly numBytes: number;
}

export function planActivations(
  config: DecoderConfig,
  type: ElemType,
  bounds: StepBounds,
  attentionScratchBytes: number,
): ActivationsPlan {
  const { hiddenSize, numHeads, numKvHeads, headDim, mlp, vocabSize } = config;
  const paddedRows = productRows(bounds.maxTokens, true);
  const rows = paddedRows * ELEM_BYTES[type];
  const inner = mlp.isGated ? 2 * mlp.intermediateSize : mlp.intermediateSize;
  const sizes: Readonly<Record<Part, number>> = {
    residual: rows * hiddenSize,
    normed: rows * hiddenSize,
    branch: rows * hiddenSize,
    mlpBranch: rows * hiddenSize,
    keptResidual: rows * hiddenSize,
    qkv: rows * (numHeads + 2 * numKvHeads) * headDim,
    queries: rows * numHeads * headDim,
    attended: rows * numHeads * headDim,
    gateUp: rows * inner,
    activated: rows * mlp.intermediateSize,
    // Rows and scales of 8-bit products, beside those that norms and activations give.
    codes: paddedRows * numHeads * headDim,
    normScales: 4 * paddedRows,
    codeScales: 4 * paddedRows,
    logits: productRows(bounds.maxLogitRows, true) * vocabSize * 4,
    // Tokens, then their log-probabilities.
    chosen: 8 * bounds.maxLogitRows,
    attentionScratch: attentionScratchBytes,
    // What the blocks of a kernel hand each other: zeros at first.
    meeting: thinMeetingBytes({ width: hiddenSize, inner: mlp.intermediateSize }),
    // Of products of some tens of rows that are left in parts.
    sumParts: groupPartsBytes(Math.max(hiddenSize, (numHeads + 2 * numKvHeads) * headDim)),
  };
  const { offsets, numBytes } = layOut(PARTS.map((part) => sizes[part]));
  return { offsets: byPart((i) => offsets[i] ?? 0), numBytes };
}

export function placeActivations({ offsets }: ActivationsPlan, base: DevicePointer): CudaActivations {
  return byPart((_, part) => base + BigInt(offsets[part]));
}

/** Bytes that one block takes in the caches of all layers. */
export function cacheBlockBytes(
  { numLayers, numKvHeads, headDim }: DecoderConfig,
  blockSize: number,
  elementBytes: number,
): number {
  return 2 * numLayers * numKvHeads * headDim * blockSize * elementBytes;
}

function byPart<T>(make: (index: number, part: Part) => T): Readonly<Record<Part, T>> {
  return Object.fromEntries(PARTS.map((part, i) => [part, make(i, part)])) as Record<Part, T>;
}
