/** The first rows of a decoder's residual stream on a GPU: embeddings, or the rows of the pipeline stage before. */
import { launchAdd } from "../../../kernels/elementwise/elementwise.cuda.ts";
import { launchGatherRows } from "../../../kernels/gather-rows/gather-rows.cuda.ts";
import { launchReplaceRows } from "../../../kernels/replace-rows/replace-rows.cuda.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { type CudaPass, numbersAt } from "./pass.ts";
import { isFirstStage } from "./ranks.ts";

/** Rows that take the place of looked-up ones. */
export interface CudaReplacedRows {
  readonly rows: DevicePointer; // i32 [count]
  readonly values: DevicePointer; // [count, hidden]
  readonly count: number;
}

/** Fills `memory.residual`: [numTokens, hidden]. */
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
