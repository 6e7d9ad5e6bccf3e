/** Writes rows of the tables of token counts and biases on a GPU, before the step whose choices name them. */
import { COUNT_SEEN } from "../../../kernels/sample/sample-params.ts";
import { launchTokenCounts } from "../../../kernels/sample/token-counts.cuda.ts";
import type { KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { StepRuleRows } from "../step-runner.ts";
import type { CudaDecoder } from "./setup.ts";
import type { StepSlot } from "./step-slot.ts";

const MAX_COUNT = COUNT_SEEN - 1;
const WORD_BYTES = 4;
/** Their lists lie where 256 rows of logits and more will be, each of at most two words a token. */
const ROWS_AT_ONCE = 64;

export function enqueueRuleRows(
  stream: KernelStream,
  { model, memory }: Pick<CudaDecoder, "model" | "memory">,
  { counts, biases }: StepRuleRows,
  slot: Pick<StepSlot, "upload">,
): void {
  const { vocabSize: vocab } = model.config;
  for (const { row, values } of biases) slot.upload(memory.logitBiases + BigInt(WORD_BYTES * row * vocab), values);
  for (let first = 0; first < counts.length; first += ROWS_AT_ONCE) {
    const { rows, entries } = packCounts(counts.slice(first, first + ROWS_AT_ONCE));
    // The logits are written later in this step: their memory is free until then.
    const lists = { rows: memory.logits, entries: memory.logits + BigInt(rows.byteLength) };
    slot.upload(lists.rows, rows);
    if (entries.length > 0) slot.upload(lists.entries, entries);
    launchTokenCounts(stream, { table: memory.tokenCounts, ...lists, numRows: rows.length / 3, vocab });
  }
}

/** Rows [.., 3] and entries [.., 2] as token-counts.cu reads them. */
export function packCounts(counts: StepRuleRows["counts"]): {
  readonly rows: Int32Array;
  readonly entries: Int32Array;
} {
  const total = counts.reduce((sum, { occurrences }) => sum + occurrences.size, 0);
  const rows = new Int32Array(3 * counts.length);
  const entries = new Int32Array(2 * total);
  let at = 0;
  for (const [i, { row, occurrences }] of counts.entries()) {
    const first = at;
    for (const [token, count] of occurrences) {
      entries[2 * at] = token;
      entries[2 * at + 1] = COUNT_SEEN | Math.min(count, MAX_COUNT);
      at += 1;
    }
    rows.set([row, first, at], 3 * i);
  }
  return { rows, entries };
}
