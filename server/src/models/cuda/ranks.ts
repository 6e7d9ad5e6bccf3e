/**
 * Collectives of a pass with the other GPUs of the same model: all-reduced partial sums, rows of other stages, logits.
 */

import { CUDA_TYPE_BYTES, layOut } from "../../device/cuda/cuda-tensor.ts";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { RankPlace, RankShard } from "../shard/rank-shard.ts";
import type { CudaPass } from "./pass.ts";

export const LOGIT_BYTES: number = CUDA_TYPE_BYTES.f32;

/** Zero where one rank makes all of a row. */
export function vocabularyPartsBytes(
  { vocabularyStep }: Pick<RankShard, "vocabularyStep">,
  { numTensorRanks }: RankPlace,
  maxLogitRows: number,
): number {
  if (numTensorRanks === 1) return 0;
  return layOut([LOGIT_BYTES * numTensorRanks * vocabularyStep * gemmRows(maxLogitRows, true)]).numBytes;
}

export function isFirstStage({ model: { ranks } }: CudaPass): boolean {
  return ranks === undefined || ranks.place.stage === 0;
}

export function isLastStage({ model: { ranks } }: CudaPass): boolean {
  return ranks === undefined || ranks.place.stage === ranks.place.numStages - 1;
}

/** Adds what the other ranks of the stage have made of the same rows. */
export function enqueueSum({ model }: CudaPass, at: DevicePointer, numRows: number): void {
  const { ranks, config, type } = model;
  if (ranks === undefined || ranks.place.numTensorRanks === 1) return;
  ranks.sum(at, numRows * config.hiddenSize, type);
}

/** Address of this rank's part of `count` rows of logits. */
export function ownPart({ ranks, share }: CudaPass["model"], count: number, out: DevicePointer): DevicePointer {
  if (ranks === undefined || share === undefined || ranks.place.numTensorRanks === 1) return out;
  return share.parts + BigInt(ranks.place.tensorRank * count * share.vocabularyStep * LOGIT_BYTES);
}

/** Puts the parts of all ranks together: f32 [count, vocab]. */
export function enqueueGatheredLogits(pass: CudaPass, count: number, out: DevicePointer): void {
  const { ranks, share, config } = pass.model;
  if (ranks === undefined) return;
  const { numTensorRanks, numStages } = ranks.place;
  if (share !== undefined && numTensorRanks > 1 && isLastStage(pass)) {
    const { parts, vocabularyStep } = share;
    ranks.gather(parts, count * vocabularyStep);
    for (let rank = 0; rank < numTensorRanks; rank++) {
      const width = Math.min(vocabularyStep, config.vocabSize - rank * vocabularyStep);
      ranks.copyRows({
        to: out + BigInt(rank * vocabularyStep * LOGIT_BYTES),
        toPitch: config.vocabSize * LOGIT_BYTES,
        from: parts + BigInt(rank * count * vocabularyStep * LOGIT_BYTES),
        fromPitch: width * LOGIT_BYTES,
        rowBytes: width * LOGIT_BYTES,
        numRows: count,
      });
    }
  }
  if (numStages > 1) ranks.returnLogits(out, count * config.vocabSize);
}
