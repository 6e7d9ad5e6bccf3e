/** Choosing tokens on the GPU from the logits of a pass. */

import { launchSample } from "../../../kernels/sample/sample.cuda.ts";
import { launchTopLogProbs } from "../../../kernels/sample/top-log-probs.cuda.ts";
import { layOutChoice, WORD_BYTES } from "./choice-layout.ts";
import { type CudaPass, numbersAt } from "./pass.ts";

/** Chooses a token for each of `count` rows of logits. */
export function enqueueChoice({ stream, model, memory, batch }: CudaPass, count: number): void {
  const { vocabSize: vocab } = model.config;
  const layout = layOutChoice(count, batch.hasTop);
  const at = (index: number): bigint => memory.chosen + BigInt(WORD_BYTES * index);
  const params = numbersAt(batch, "choices");
  const rows = { type: "f32", logits: memory.logits, numRows: count, vocab, rowStride: vocab, params } as const;
  const tables = { countTable: memory.tokenCounts, biasTable: memory.logitBiases, maskTable: memory.tokenMasks };
  launchSample(stream, { ...rows, ...tables, tokens: memory.chosen, logProbs: at(layout.logProbs) });
  if (!batch.hasTop) return;
  launchTopLogProbs(stream, { ...rows, ids: at(layout.topIds), logProbs: at(layout.topLogProbs) });
}
