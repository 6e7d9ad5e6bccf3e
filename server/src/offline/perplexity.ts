/** How well a model foretells a text: the exponential of the mean loss per token, in pieces that each start anew. */
import { createDecoderRunner } from "../engine/decoder-cpu-runner.ts";
import type { StepInput } from "../engine/step-runner.ts";

export interface Perplexity {
  readonly perplexity: number;
  readonly numTokens: number;
}

const BLOCK_SIZE = 16;

/** `pieces`: token ids, of which all but the first of each are foretold. */
export async function measurePerplexity(
  modelDir: string,
  pieces: readonly Int32Array[],
  onPiece: () => void,
): Promise<Perplexity> {
  const longest = Math.max(2, ...pieces.map(({ length }) => length));
  const numBlocks = Math.ceil(longest / BLOCK_SIZE);
  const runner = await createDecoderRunner({ modelDir, numBlocks, blockSize: BLOCK_SIZE });
  try {
    let [loss, numTokens] = [0, 0];
    for (const piece of pieces) {
      if (piece.length < 2) continue;
      loss += pieceLoss(await runner.run(wholeStep(piece)), piece, runner.vocabSize);
      numTokens += piece.length - 1;
      onPiece();
    }
    return { perplexity: Math.exp(loss / numTokens), numTokens };
  } finally {
    await runner.close();
  }
}

function wholeStep(tokenIds: Int32Array): StepInput {
  const { length } = tokenIds;
  const places = Int32Array.from({ length }, (_, i) => i);
  const blockTable = Int32Array.from({ length: Math.ceil(length / BLOCK_SIZE) }, (_, i) => i);
  const sequences = [{ queryStart: 0, queryLength: length, contextLength: length, blockTable }];
  return { tokenIds, positions: places, slots: places, sequences, logitRows: places };
}

/** Sum of the negative logarithms of the probabilities of what came. */
export function pieceLoss(logits: Float32Array, tokenIds: Int32Array, vocabSize: number): number {
  let loss = 0;
  for (let i = 0; i + 1 < tokenIds.length; i++) {
    const row = logits.subarray(i * vocabSize, (i + 1) * vocabSize);
    let largest = Number.NEGATIVE_INFINITY;
    for (let k = 0; k < vocabSize; k++) largest = Math.max(largest, row[k] ?? 0);
    let sum = 0;
    for (let k = 0; k < vocabSize; k++) sum += Math.exp((row[k] ?? 0) - largest);
    loss += largest + Math.log(sum) - (row[tokenIds[i + 1] ?? 0] ?? 0);
  }
  return loss;
}
