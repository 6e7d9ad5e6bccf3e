/** Perplexity: the exponential of the mean negative log-likelihood per token, over independent pieces. */
import type { StepInput } from "@nereid/server/engine/step-runner";
import type { Reporter } from "@nereid/server/files/progress";
import { openRunner } from "../run/open-runner.ts";
import type { ToolDevice } from "../run/tool-device.ts";

export interface Perplexity {
  readonly perplexity: number;
  readonly numTokens: number;
}

/** `pieces`: token ids; all but the first of each are predicted. */
export async function measurePerplexity(
  modelDir: string,
  pieces: readonly Int32Array[],
  onPiece: () => void,
  { device, reporter }: { readonly device: ToolDevice; readonly reporter?: Reporter | undefined },
): Promise<Perplexity> {
  const longest = Math.max(2, ...pieces.map(({ length }) => length));
  const sizes = { maxSequences: 1, maxSequenceTokens: longest, maxStepTokens: longest };
  const runner = await openRunner({ modelDir, device, ...sizes, reporter });
  try {
    let [loss, numTokens] = [0, 0];
    for (const piece of pieces) {
      if (piece.length < 2) continue;
      loss += pieceLoss(await runner.run(wholeStep(piece, runner.blockSize)), piece, runner.vocabSize);
      numTokens += piece.length - 1;
      onPiece();
    }
    return { perplexity: Math.exp(loss / numTokens), numTokens };
  } finally {
    await runner.close();
  }
}

function wholeStep(tokenIds: Int32Array, blockSize: number): StepInput {
  const { length } = tokenIds;
  const places = Int32Array.from({ length }, (_, i) => i);
  const blockTable = Int32Array.from({ length: Math.ceil(length / blockSize) }, (_, i) => i);
  const sequences = [{ queryStart: 0, queryLength: length, contextLength: length, blockTable }];
  return { tokenIds, positions: places, slots: places, sequences, logitRows: places };
}

/** Sum of the negative log probabilities of the actual tokens. */
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
