/** The most likely tokens on a GPU: ids, order and log-probabilities of a sorted row. Source: top-log-probs.cu. */
import type { ElemType } from "../cuda/launch-args.ts";
import {
  type CudaBench,
  type CudaCheck,
  type CudaCheckContext,
  relativeError,
  shareOfDifferences,
} from "../testing/cuda-check.ts";
import { downloadFloats, seededFloats, uploadFloats } from "../testing/cuda-check-data.ts";
import { MAX_TOP, NEUTRAL_SAMPLE_PARAMS, SAMPLE_PARAMS_BYTES, writeSampleParams } from "./sample-params.ts";
import { launchTopLogProbs } from "./top-log-probs.cuda.ts";

interface Way {
  readonly type: ElemType;
  readonly vocab: number;
  /** Tokens wanted of each row. */
  readonly counts: readonly number[];
  /** Logits are rounded to so many steps, so that many are equal. */
  readonly numSteps?: number;
  /** Ids that hold no number. */
  readonly isNan?: (id: number) => boolean;
}

const UNTOUCHED = -7;
const WAYS: readonly Way[] = [
  { type: "f32", vocab: 128_256, counts: [5, 0, 1, 20] },
  { type: "bf16", vocab: 32_000, counts: [20, 3, 0] },
  { type: "f32", vocab: 1003, counts: [0, 7, 20], numSteps: 6 },
  { type: "f32", vocab: 12, counts: [20, 12], isNan: (id) => id % 3 === 0 },
];

export const cudaChecks: readonly CudaCheck[] = WAYS.map((way) => ({
  name: `top log-probabilities ${way.type} ${way.vocab} of ${way.counts.join(", ")}`,
  maxError: 1e-4,
  shows: [`type ${way.type}`],
  run: (context) => runWay(context, way),
  ...(way.vocab === 128_256 ? { benches } : {}),
}));

async function runWay(context: CudaCheckContext, way: Way): Promise<number> {
  const { type, vocab, counts, numSteps = 0 } = way;
  const numRows = counts.length;
  const rowStride = Math.ceil(vocab / 8) * 8;
  const raw = seededFloats(numRows * rowStride, 3).map((x, i) => {
    if (way.isNan?.(i % rowStride) === true) return Number.NaN;
    return numSteps > 0 ? Math.round(x * numSteps) / numSteps : 9 * x;
  });
  const logits = uploadFloats(context, type, raw);
  const ids = new Int32Array(numRows * MAX_TOP).fill(UNTOUCHED);
  const out = { ids: context.upload(ids), logProbs: context.zeros(4 * numRows * MAX_TOP) };
  const params = uploadCounts(context, counts);
  launchTopLogProbs(context.stream, { type, logits: logits.pointer, numRows, vocab, rowStride, params, ...out });
  await context.download(out.ids, ids);
  const logProbs = await downloadFloats(context, "f32", out.logProbs, numRows * MAX_TOP);
  const [expectedIds, expectedLogProbs] = [ids.slice().fill(UNTOUCHED), new Float32Array(logProbs.length)];
  for (const [row, count] of counts.entries()) {
    const sorted = sortedRow(logits.values.subarray(row * rowStride, row * rowStride + vocab));
    for (let place = 0; place < count; place++) {
      const at = row * MAX_TOP + place;
      expectedIds[at] = sorted[place]?.id ?? -1;
      expectedLogProbs[at] = sorted[place]?.logProb ?? Number.NEGATIVE_INFINITY;
    }
  }
  const finite = (values: Float32Array): Float32Array => values.map((value) => Math.max(value, -1e3));
  return Math.max(shareOfDifferences(ids, expectedIds), relativeError(finite(logProbs), finite(expectedLogProbs)));
}

/** Numbers alone, the largest first, equal ones by id. */
function sortedRow(logits: Float32Array): readonly { readonly id: number; readonly logProb: number }[] {
  const numbers = Array.from(logits, (logit, id) => ({ id, logit })).filter(({ logit }) => !Number.isNaN(logit));
  numbers.sort((a, b) => b.logit - a.logit || a.id - b.id);
  const largest = numbers[0]?.logit ?? 0;
  const mass = Math.log(numbers.reduce((sum, { logit }) => sum + Math.exp(logit - largest), 0));
  return numbers.map(({ id, logit }) => ({ id, logProb: logit - largest - mass }));
}

function uploadCounts(context: CudaCheckContext, counts: readonly number[]): bigint {
  const view = new DataView(new ArrayBuffer(counts.length * SAMPLE_PARAMS_BYTES));
  for (const [row, numTop] of counts.entries()) writeSampleParams(view, row, { ...NEUTRAL_SAMPLE_PARAMS, numTop });
  return context.upload(view);
}

function benches(context: CudaCheckContext): readonly CudaBench[] {
  const vocab = 128_256;
  return [
    [1, 5],
    [64, 5],
    [64, 20],
  ].map(([numRows = 1, numTop = 1]) => {
    const logits = uploadFloats(context, "f32", seededFloats(numRows * vocab, 3)).pointer;
    const params = uploadCounts(context, new Array<number>(numRows).fill(numTop));
    const out = { ids: context.zeros(4 * numRows * MAX_TOP), logProbs: context.zeros(4 * numRows * MAX_TOP) };
    return {
      name: `${numTop} of ${numRows} rows`,
      bytes: numRows * vocab * 4,
      flops: 0,
      launch: (): void =>
        launchTopLogProbs(context.stream, { type: "f32", numRows, vocab, rowStride: vocab, logits, params, ...out }),
    };
  });
}
