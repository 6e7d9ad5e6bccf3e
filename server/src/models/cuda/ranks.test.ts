import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DenseGemm } from "../../device/cuda/dense-gemm.ts";
import { FakeKernelStream } from "../../device/cuda/fake-kernel-stream.ts";
import { placeRegions } from "../../device/cuda/regions.ts";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { type RankPlace, shardDecoder } from "../shard/rank-shard.ts";
import { describeWeights } from "../weights/weight-plan.ts";
import { attentionScratch } from "./attention.ts";
import { enqueueDecoder, enqueueLogits } from "./decoder.ts";
import { planActivations } from "./memory.ts";
import type { CudaDecoderModel, CudaPass, CudaRanks } from "./pass.ts";
import { vocabularyPartsBytes } from "./ranks.ts";
import { layOutStep } from "./step-layout.ts";

const LLAMA = {
  architectures: ["LlamaForCausalLM"],
  hidden_act: "silu",
  rms_norm_eps: 1e-5,
  vocab_size: 520,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  max_position_embeddings: 256,
};
const PHI = { ...LLAMA, architectures: ["PhiForCausalLM"], hidden_act: "gelu_new", layer_norm_eps: 1e-5 };
const PARTS = 2n ** 41n;
/** More than kernels for few rows take. */
const NUM_TOKENS = 160;
const NUM_LOGIT_ROWS = 3;

interface Recording {
  /** Names of kernels, "gemm", and what the ranks are asked for. */
  readonly work: readonly string[];
  readonly gemms: readonly DenseGemm[];
}

/** Records a pass over prompts on one of several GPUs. */
function record(config: object, place: RankPlace, isCoded = false): Recording {
  const whole = parseDecoderConfig({ config, generation: undefined, at: { config: "test", generation: "test" } });
  const { parsed, vocabulary, vocabularyStep } = shardDecoder(whole, () => false, place);
  let address = 2n ** 20n;
  const makeTensor = ({ shape }: { readonly shape: readonly number[] }): CudaTensor => {
    address += 2n ** 20n;
    const hasCodes = isCoded && shape.length === 2 && shape[0] !== 520 && shape[0] !== vocabulary.count;
    return { address, type: hasCodes ? "e4m3" : "bf16", shape, scales: hasCodes ? address : undefined };
  };
  const weights = describeWeights(parsed.config, parsed.weights, "", makeTensor, { outputRows: parsed.outputRows });
  const bounds = { maxTokens: 256, maxSequences: 16, maxLogitRows: 16 };
  const scratch = attentionScratch(parsed.config, 16, "bf16", { arch: "sm_90a", numSms: 132 });
  const work: string[] = [];
  const ranks: CudaRanks = {
    place,
    sum: (_, count) => void work.push(`sum ${count}`),
    receiveRows: (_, count) => void work.push(`receive ${count}`),
    sendRows: (_, count) => void work.push(`send ${count}`),
    gather: (at, count) => void work.push(`gather ${count} at ${at - PARTS}`),
    returnLogits: (_, count) => void work.push(`return ${count}`),
    copyRows: ({ from, rowBytes, numRows }) => void work.push(`copy ${numRows} x ${rowBytes} from ${from - PARTS}`),
  };
  const model: CudaDecoderModel = {
    config: parsed.config,
    type: "bf16",
    weights,
    ropes: parsed.config.ropes.map(({ numDims }) => ({ invFreq: 64n, numDims, magnitude: 1 })),
    caches: parsed.config.layers.map(() => ({ keys: 4096n, values: 8192n })),
    cacheType: "bf16",
    blockSize: 16,
    numBlocks: 32,
    attentionCountersBytes: scratch.countersBytes,
    ranks,
    share: { vocabulary, vocabularyStep, parts: PARTS },
  };
  const sizes = { numTokens: NUM_TOKENS, numSequences: 2, maxBlocks: 8, numLogitRows: NUM_LOGIT_ROWS, numChoices: 0 };
  const kind = { numDecoding: 0, maxQueryLength: NUM_TOKENS, keepsAllRows: false, hasTop: false };
  const batch = { ...sizes, ...kind, numbers: 1024n, layout: layOutStep(sizes) };
  const stream = new FakeKernelStream();
  const launch = stream.launch.bind(stream);
  stream.launch = (kernel, ...rest): void => {
    work.push(kernel.spec.name);
    launch(kernel, ...rest);
  };
  const gemms: DenseGemm[] = [];
  const run = (gemm: DenseGemm): void => {
    work.push("gemm");
    gemms.push(gemm);
  };
  const memory = placeRegions(planActivations(parsed.config, "bf16", bounds, scratch.numBytes), 2n ** 30n);
  const pass: CudaPass = { stream, gemms: { run }, model, memory, batch };
  const rows = enqueueDecoder(pass);
  if (rows !== undefined) enqueueLogits(pass, rows, { first: 0, count: NUM_LOGIT_ROWS }, memory.logits);
  return { work, gemms };
}

const tensorRank = (rank: number): RankPlace => ({ tensorRank: rank, numTensorRanks: 2, stage: 0, numStages: 1 });
const stage = (index: number): RankPlace => ({ tensorRank: 0, numTensorRanks: 1, stage: index, numStages: 2 });

test("GPUs that share layers sum behind attention and MLP, and put their logits together", () => {
  const { work } = record(LLAMA, tensorRank(1));
  const sums = work.flatMap((name, i) => (name.startsWith("sum") ? [[work[i - 1], name, work[i + 1]]] : []));
  assert.deepEqual(sums, [
    ["gemm", "sum 20480", "add_norm"],
    ["gemm", "sum 20480", "add_norm"],
    ["skinny_gemm", "sum 384", "add_norm"],
    ["skinny_gemm", "sum 384", "add_norm"],
  ]);
  // 272 and 248 columns of 520, three rows of each.
  assert.deepEqual(work.slice(-4), [
    "gemm",
    "gather 816 at 0",
    "copy 3 x 1088 from 0",
    `copy 3 x 992 from ${3 * 272 * 4}`,
  ]);
});

test("gemms on one of two GPUs have half the outputs, and behind them half the inputs", () => {
  const { gemms } = record(LLAMA, tensorRank(0));
  assert.deepEqual(
    gemms.slice(0, 4).map(({ outputs, inputs }) => [outputs, inputs]),
    [
      [128, 128],
      [128, 64],
      [256, 128],
      [128, 128],
    ],
  );
});

test("what attention and MLP add to the same rows is summed at once", () => {
  const { work } = record(PHI, tensorRank(0));
  assert.equal(work.filter((name) => name.startsWith("sum")).length, 2);
  for (const [i, name] of work.entries()) if (name.startsWith("sum")) assert.equal(work[i - 1], "add");
});

test("gemms that are summed carry their scales", () => {
  const { gemms } = record(LLAMA, tensorRank(0), true);
  const behind = gemms.filter(({ outputs, inputs }) => outputs === 128 && inputs !== 128);
  assert.ok(behind.length > 0);
  for (const { scales } of behind) assert.equal(scales, "rows");
});

test("the first of two stages looks up and passes rows on, and gets logits back", () => {
  const { work } = record(LLAMA, stage(0));
  assert.equal(work[0], "gather_rows");
  assert.deepEqual(work.slice(-2), ["send 20480", "return 1560"]);
  assert.equal(work.filter((name) => name === "rope_store").length, 1);
});

test("the last of two stages takes rows, and sends logits back", () => {
  const { work } = record(LLAMA, stage(1));
  assert.equal(work[0], "receive 20480");
  assert.deepEqual(work.slice(-2), ["gemm", "return 1560"]);
  assert.equal(
    work.some((name) => name.startsWith("sum") || name.startsWith("gather ")),
    false,
  );
});

test("vocabularyPartsBytes() has room for every rank's part of all rows", () => {
  assert.equal(vocabularyPartsBytes({ vocabularyStep: 272 }, tensorRank(0), 16), 2 * 272 * 16 * 4);
  assert.equal(vocabularyPartsBytes({ vocabularyStep: 272 }, stage(0), 16), 0);
});
