/** Enqueues the forward pass of a decoder on a GPU, its logits, and the choice of tokens. The engine decides the meaning of the batch. */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { launchScale, launchSoftCap } from "../../../kernels/elementwise/elementwise.cuda.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { walkDecoder } from "../decoder/walk-decoder.ts";
import { CudaDecoderOps } from "./decoder-ops.ts";
import type { CudaReplacedRows } from "./embedding.ts";
import { enqueueGemm } from "./gemm.ts";
import type { CudaPass, CudaRows } from "./pass.ts";
import { enqueueGatheredLogits, isLastStage, ownPart } from "./ranks.ts";

/** From tokens to the normalized rows that logits are made of; undefined when none are wanted. */
export function enqueueDecoder(pass: CudaPass, replaced?: CudaReplacedRows): CudaRows | undefined {
  return walkDecoder(new CudaDecoderOps(pass, replaced), pass.model);
}

/** Logits of `count` of the rows that `enqueueDecoder` gives, from `first` on: f32 [count, vocab]. */
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
    if (config.logitScale !== 1) {
      launchScale(stream, { type: "f32", x: part, out: part, count: count * width, factor: config.logitScale });
    }
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
