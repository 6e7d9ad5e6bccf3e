/** Sampling on a GPU: for each sampling method, row by row, the token that the reference chooses. Source: sample.cu. */
import type { ElemType } from "../cuda/launch-args.ts";
import {
  type CudaBench,
  type CudaCheck,
  type CudaCheckContext,
  relativeError,
  shareOfDifferences,
} from "../testing/cuda-check.ts";
import { downloadFloats, seededFloats, uploadFloats } from "../testing/cuda-check-data.ts";
import { launchSample } from "./sample.cuda.ts";
import { sampleRef } from "./sample.ref.ts";
import {
  COUNT_SEEN,
  NEUTRAL_SAMPLE_PARAMS,
  SAMPLE_PARAMS_BYTES,
  type SampleParams,
  writeSampleParams,
} from "./sample-params.ts";

interface Way {
  readonly name: string;
  readonly type: ElemType;
  readonly params: Partial<SampleParams>;
  /** Spread of the logits. */
  readonly spread: number;
  /** Logit of the first token; the others lie around 0. */
  readonly outlier?: number;
  readonly vocab?: number;
  readonly hasTables?: boolean;
  readonly byId?: boolean;
}

const NUM_ROWS = 8;
const WAYS: readonly Way[] = [
  { name: "greedy", type: "f32", params: { isGreedy: true }, spread: 12 },
  { name: "greedy", type: "bf16", params: { isGreedy: true }, spread: 12 },
  { name: "greedy with rules", type: "f32", params: { isGreedy: true }, spread: 12, hasTables: true },
  { name: "all", type: "f32", params: { temperature: 0.8 }, spread: 8, byId: true },
  { name: "min-p", type: "f32", params: { minP: 0.02 }, spread: 12, byId: true },
  { name: "top-k 50", type: "f32", params: { topK: 50 }, spread: 12 },
  { name: "top-k 50", type: "bf16", params: { topK: 50, temperature: 0.7 }, spread: 12 },
  { name: "top-k 1000 top-p 0.9", type: "f32", params: { topK: 1000, topP: 0.9 }, spread: 20 },
  { name: "top-p 0.9", type: "f32", params: { topP: 0.9, temperature: 0.3 }, spread: 12 },
  { name: "top-p 0.9 min-p 0.1", type: "bf16", params: { topP: 0.9, minP: 0.1, temperature: 0.5 }, spread: 12 },
  { name: "flat top-p 0.5", type: "f32", params: { topP: 0.5 }, spread: 0.1, byId: true },
  { name: "flat top-p 0.9", type: "f32", params: { topP: 0.9, temperature: 0.8 }, spread: 0.1, byId: true },
  {
    name: "flat top-p 0.9 far from one",
    type: "bf16",
    params: { topP: 0.9 },
    vocab: 32_000,
    spread: 0.1,
    outlier: 9,
    byId: true,
  },
  { name: "flat top-k 50", type: "f32", params: { topK: 50 }, vocab: 32_000, spread: 0.1 },
  { name: "flat top-k 20000 top-p 0.5", type: "f32", params: { topK: 20000, topP: 0.5 }, spread: 0.5, byId: true },
  { name: "rules top-k 40", type: "f32", params: { topK: 40, temperature: 1.3 }, spread: 12, hasTables: true },
  {
    name: "rules with an odd vocabulary top-k 40",
    type: "bf16",
    params: { topK: 40, banned: [3, 32_000] },
    vocab: 32_001,
    spread: 12,
    hasTables: true,
  },
  { name: "odd vocabulary top-p 0.95", type: "f32", params: { topP: 0.95 }, spread: 15, vocab: 32001 },
  {
    name: "banned top-k 3",
    type: "f32",
    params: { topK: 3, banned: [0, 1, 2, 5, 77, 31_999] },
    vocab: 32_000,
    spread: 12,
  },
  {
    name: "banned greedy",
    type: "bf16",
    params: { isGreedy: true, banned: [7, 1000, 4096] },
    vocab: 32_000,
    spread: 12,
  },
  { name: "small vocabulary top-p 0.9", type: "bf16", params: { topP: 0.9 }, spread: 0.5, vocab: 1003 },
  { name: "large vocabulary top-p 0.9", type: "f32", params: { topP: 0.9 }, spread: 0.1, vocab: 262144, byId: true },
];

const TIMED: ReadonlySet<string> = new Set([
  "greedy",
  "all",
  "top-k 50",
  "top-p 0.9",
  "flat top-p 0.9",
  "flat top-k 50",
]);

export const cudaChecks: readonly CudaCheck[] = WAYS.map((way) => ({
  name: `sample ${way.name} ${way.type}`,
  // A draw at the very edge of two tokens may fall to either side.
  maxError: way.byId ? 0.13 : 0.001,
  shows: [...Object.keys(way.params), way.hasTables ? "rules" : "no rules", way.byId ? "by id" : "in order"],
  run: (context) => runWay(context, way),
  ...(TIMED.has(way.name) && way.type === "f32" ? { benches: (context) => benches(context, way) } : {}),
}));

async function runWay(context: CudaCheckContext, way: Way): Promise<number> {
  const vocab = way.vocab ?? 128256;
  const rowStride = Math.ceil(vocab / 8) * 8;
  const logits = uploadFloats(context, way.type, wayLogits(way, rowStride));
  const counts = new Uint16Array(NUM_ROWS * vocab);
  const maskWords = Math.ceil(vocab / 32);
  const mask = new Uint32Array(NUM_ROWS * maskWords).fill(0xffffffff);
  const bias = seededFloats(NUM_ROWS * vocab, 5);
  for (let i = 0; i < counts.length; i += 3) counts[i] = i % 2 === 0 ? COUNT_SEEN : COUNT_SEEN + (i % 5);
  for (let i = 0; i < mask.length; i += 7) mask[i] = 0x0f0f3c3c;
  const rows = Array.from({ length: NUM_ROWS }, (_, row) => paramsOf(way, row));
  const view = new DataView(new ArrayBuffer(NUM_ROWS * SAMPLE_PARAMS_BYTES));
  for (const [row, params] of rows.entries()) writeSampleParams(view, row, params);
  const countTable = context.upload(counts);
  const pointers = { params: context.upload(view), countTable, biasTable: context.upload(bias) };
  const out = { tokens: context.allocate(NUM_ROWS * 4), logProbs: context.allocate(NUM_ROWS * 4) };
  const sizes = { type: way.type, numRows: NUM_ROWS, vocab, rowStride };
  launchSample(context.stream, {
    ...sizes,
    logits: logits.pointer,
    ...pointers,
    maskTable: context.upload(mask),
    ...out,
  });
  const tokens = new Int32Array(NUM_ROWS);
  await context.download(out.tokens, tokens);
  const logProbs = await downloadFloats(context, "f32", out.logProbs, NUM_ROWS);
  const expected = rows.map((params, row) =>
    sampleRef({
      logits: logits.values.subarray(row * rowStride, row * rowStride + vocab),
      params,
      ...(way.hasTables
        ? {
            counts: counts.subarray(row * vocab, (row + 1) * vocab),
            bias: bias.subarray(row * vocab, (row + 1) * vocab),
            mask: mask.subarray(row * maskWords, (row + 1) * maskWords),
          }
        : {}),
      byId: way.byId === true,
    }),
  );
  const wanted = expected.map(({ token }) => token);
  const chosen = rows.map((_, row) => {
    const row0 = logits.values.subarray(row * rowStride, row * rowStride + vocab);
    return logProbRef(row0, tokens[row] ?? -1);
  });
  return Math.max(shareOfDifferences(tokens, wanted), relativeError(logProbs, chosen));
}

function paramsOf(way: Way, row: number): SampleParams {
  const own = { seedLow: row * 7919, seedHigh: row, index: row * 3 };
  if (!way.hasTables) return { ...NEUTRAL_SAMPLE_PARAMS, ...way.params, ...own };
  const tables = { countRow: row, biasRow: row, maskRow: row };
  const penalties = { repetitionPenalty: 1.3, presencePenalty: 0.4, frequencyPenalty: 0.2 };
  return { ...NEUTRAL_SAMPLE_PARAMS, ...way.params, ...own, ...tables, ...penalties };
}

function wayLogits({ spread, outlier }: Way, rowStride: number): Float32Array {
  const logits = logitsOf(NUM_ROWS * rowStride, spread);
  if (outlier !== undefined) for (let row = 0; row < NUM_ROWS; row += 1) logits[row * rowStride] = outlier;
  return logits;
}

/** Most logits lie low and few high, as a model's do. */
function logitsOf(count: number, spread: number): Float32Array {
  const logits = seededFloats(count, 3);
  for (let i = 0; i < count; i++) {
    const x = Math.abs(logits[i] ?? 0);
    // The ninth power; Math.pow takes most of the time of a check.
    const cubed = x * x * x;
    logits[i] = spread < 1 ? (logits[i] ?? 0) * spread : spread * cubed * cubed * cubed;
  }
  return logits;
}

function logProbRef(logits: Float32Array, token: number): number {
  const largest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
  return (logits[token] ?? 0) - largest - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
}

function benches(context: CudaCheckContext, way: Way): readonly CudaBench[] {
  const vocab = 128256;
  return [1, 64].map((numRows) => {
    const logits = uploadFloats(context, "f32", logitsOf(numRows * vocab, way.spread)).pointer;
    const view = new DataView(new ArrayBuffer(numRows * SAMPLE_PARAMS_BYTES));
    for (let row = 0; row < numRows; row++) writeSampleParams(view, row, paramsOf(way, row));
    const params = context.upload(view);
    const out = { tokens: context.allocate(numRows * 4), logProbs: context.allocate(numRows * 4) };
    return {
      name: `${numRows} rows`,
      bytes: numRows * vocab * 4,
      flops: 0,
      launch: (): void =>
        launchSample(context.stream, { type: "f32", numRows, vocab, rowStride: vocab, logits, params, ...out }),
    };
  });
}
