import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../src/device/cuda/fake-kernel-stream.ts";
import { launchAddNorm } from "./add-norm/add-norm.cuda.ts";
import { launchAllReduce } from "./all-reduce/all-reduce.cuda.ts";
import {
  type DecodeAttentionCudaArgs,
  launchDecodeAttention,
  launchPrefillAttention,
} from "./attention/attention.cuda.ts";
import { launchExpertGemm } from "./expert-gemm/expert-gemm.cuda.ts";
import { launchGatedMul } from "./gated-mul/gated-mul.cuda.ts";
import { launchRopeStore } from "./rope-store/rope-store.cuda.ts";
import { launchRouteExperts } from "./route-experts/route-experts.cuda.ts";
import { launchSample } from "./sample/sample.cuda.ts";

const DECODE: DecodeAttentionCudaArgs = {
  type: "bf16",
  q: 0n,
  qRowWidth: 6144,
  keys: 0n,
  values: 0n,
  contextLengths: 0n,
  blockTables: 0n,
  out: 0n,
  numSequences: 2,
  maxBlocks: 64,
  blockSize: 32,
  numHeads: 32,
  numKvHeads: 8,
  headDim: 128,
  scale: 0.1,
  counters: 0n,
  partials: 0n,
};
const ROPE = { type: "bf16", qkv: 0n, positions: 0n, slots: 0n, q: 0n, keys: 0n, values: 0n, qRowWidth: 1024 } as const;
const ROPE_SHAPE = { numTokens: 1, numHeads: 8, numKvHeads: 2, headDim: 128 } as const;
const NORM = { residual: 0n, weight: 0n, out: 0n, epsilon: 1e-5, numRows: 1, kind: "rms" } as const;
const SAMPLE = { type: "f32", logits: 0n, params: 0n, tokens: 0n, logProbs: 0n, numRows: 1 } as const;
const LISTS = { counts: 0n, order: 0n };
const ROUTED = { logits: 0n, ids: 0n, weights: 0n, lists: LISTS } as const;
const ROUTE = { type: "f32", ...ROUTED, numTokens: 1, isRenormalized: true } as const;
const EXPERT_ROWS = {
  lists: LISTS,
  choicesPerRow: 2,
  x: 0n,
  weight: 0n,
  out: 0n,
  numChoices: 2,
  numTokens: 1,
} as const;
const REDUCE = {
  type: "bf16",
  in: 0n,
  out: 0n,
  staging: 0n,
  flags: 0n,
  rounds: 0n,
  numRanks: 2,
  capacity: 64,
} as const;

type Launch = (stream: FakeKernelStream) => void;

const REFUSED: readonly (readonly [what: string, launch: Launch, message: RegExp])[] = [
  [
    "decode over groups that are not equal",
    (stream) => launchDecodeAttention(stream, { ...DECODE, numKvHeads: 5 }),
    /decodeAttention: expected query heads in equal groups, got 32 over 5/,
  ],
  [
    "decode with heads of 102",
    (stream) => launchDecodeAttention(stream, { ...DECODE, headDim: 102 }),
    /expected heads of a multiple of 4 elements, at most 256, got 102/,
  ],
  [
    "decode with blocks of 8",
    (stream) => launchDecodeAttention(stream, { ...DECODE, blockSize: 8 }),
    /expected blocks of a multiple of 16 tokens, got 8/,
  ],
  [
    "prefill of rows too narrow",
    (stream) => launchPrefillAttention(stream, { ...DECODE, qRowWidth: 128, queryStarts: 0n, maxQueryLength: 4 }),
    /prefillAttention: expected rows of at least 32 heads of 128, got 128/,
  ],
  [
    "a rotation of more elements than a head has",
    (stream) => launchRopeStore(stream, { ...ROPE, ...ROPE_SHAPE, rope: { invFreq: 0n, numDims: 132, magnitude: 1 } }),
    /ropeStore: expected a multiple of 4 of at most 128 rotated elements, got 132/,
  ],
  [
    "a norm of rows that vectors do not fill",
    (stream) => launchAddNorm(stream, { ...NORM, type: "bf16", width: 100 }),
    /addNorm: expected rows of a multiple of 8 elements of bf16, got 100/,
  ],
  [
    "a norm of rows that registers cannot hold",
    (stream) => launchAddNorm(stream, { ...NORM, type: "f32", width: 65536 }),
    /addNorm: expected rows of at most 32768, got 65536/,
  ],
  [
    "a gated GEMM of no rows",
    (stream) => launchGatedMul(stream, { type: "f32", activation: "silu", gateUp: 0n, out: 0n, numRows: 0, width: 64 }),
    /gatedMul: expected at least one row, got 0/,
  ],
  [
    "a choice from rows shorter than the vocabulary",
    (stream) => launchSample(stream, { ...SAMPLE, vocab: 100, rowStride: 96 }),
    /sample: expected rows of a multiple of 4 and at least 100 logits, got 96/,
  ],
  [
    "more experts than a token may choose",
    (stream) => launchRouteExperts(stream, { ...ROUTE, numExperts: 4, numChosen: 5 }),
    /routeExperts: expected 1 to 4 chosen experts, got 5/,
  ],
  [
    "experts with rows of 24 codes",
    (stream) =>
      launchExpertGemm(stream, { ...EXPERT_ROWS, weightType: "e4m3", numExperts: 4, inputs: 24, outputs: 64 }),
    /expertGemm: expected rows of a multiple of 16 elements of e4m3, got 24/,
  ],
  [
    "a message larger than its staging memory",
    (stream) => launchAllReduce(stream, { ...REDUCE, rank: 0, count: 72 }),
    /allReduce: expected at most 64 elements, got 72/,
  ],
  [
    "a rank that is none",
    (stream) => launchAllReduce(stream, { ...REDUCE, rank: 2, count: 64 }),
    /allReduce: expected a rank of at most 8, got 2 of 2/,
  ],
];

for (const [what, launch, message] of REFUSED) {
  test(`launchers refuse ${what} and launch nothing`, () => {
    const stream = new FakeKernelStream();
    assert.throws(() => launch(stream), message);
    assert.equal(stream.launches.length, 0);
  });
}

test("launchExpertGemm() has tiles for every way in which choices can fall", () => {
  const stream = new FakeKernelStream();
  const rows = { ...EXPERT_ROWS, weightType: "bf16", numChoices: 64, numTokens: 32, inputs: 64, outputs: 128 } as const;
  launchExpertGemm(stream, { ...rows, numExperts: 8, isDeterministic: true });
  const [launch] = stream.launches;
  assert.deepEqual([launch?.spec.defines.ROWS, launch?.grid[1]], [8, 16]);
});

test("launchAddNorm() compiles only what a layer asks for", () => {
  const stream = new FakeKernelStream();
  launchAddNorm(stream, { ...NORM, type: "bf16", width: 4096 });
  launchAddNorm(stream, { ...NORM, type: "bf16", width: 4096, branch: 16n, postWeight: 32n });
  const codes = { codes: "e4m3", scales: 64n, per: "row" } as const;
  launchAddNorm(stream, { ...NORM, type: "bf16", width: 4096, branch: 16n, quantized: codes });
  assert.deepEqual(
    stream.launches.map((launch) => launch.spec.defines),
    [
      { ELEM_BF16: 1, VECTORS: 1 },
      { ELEM_BF16: 1, VECTORS: 1, HAS_BRANCH: 1, POST_NORM: 1 },
      { ELEM_BF16: 1, VECTORS: 1, HAS_BRANCH: 1, QUANTIZE_E4M3: 1 },
    ],
  );
});
