/**
 * Cost of narrower types of the KV cache: logits and perplexity against a cache of f32, and copies between device and
 * host of such a cache. Each text is read in one go, so that every token but the first is predicted from rounded keys
 * and values.
 */
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner, type DecoderRunnerOptions } from "../../server/src/engine/cpu/cpu-runner.ts";
import type { KvCacheType } from "../../server/src/engine/engine-spec.ts";
import { logProb } from "../../server/src/engine/sample/log-probs.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NUM_BLOCKS = 64;

interface Model {
  readonly name: string;
  readonly modelDir: string;
  readonly texts: readonly (readonly number[])[];
  /** Bounds on the largest difference of logits, and on the ratio of perplexities less one. */
  readonly bounds: Readonly<Record<Exclude<KvCacheType, "f32">, readonly [logits: number, perplexity: number]>>;
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(`${ROOT}${path}`, "utf8"));
}

const TINY = "examples/nereid-tiny";
const RANDOM = "tests/parity/models/llama-2";
const golden = readJson(`${TINY}/golden_text.json`) as readonly { input_ids: number[]; output_ids: number[] }[];
const recorded = readJson(`${RANDOM}/expected.json`) as { prompt: number[]; greedy: number[] };
const MODELS: readonly Model[] = [
  {
    name: "nereid-tiny, heads of 64",
    modelDir: `${ROOT}${TINY}/language_model`,
    texts: golden.map(({ input_ids, output_ids }) => [...input_ids, ...output_ids]),
    bounds: { f16: [5e-2, 1e-3], q8_0: [0.6, 5e-3] },
  },
  {
    name: "a random Llama, heads of 32",
    modelDir: withWiderHeads(`${ROOT}${RANDOM}`),
    texts: [[...recorded.prompt, ...recorded.greedy]],
    bounds: { f16: [5e-3, 1e-3], q8_0: [5e-2, 2e-3] },
  },
];

/** The same weights as half as many heads of twice the size: another model, as good as any for comparing types. */
function withWiderHeads(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), "nereid-heads-"));
  after(() => rmSync(copy, { recursive: true }));
  cpSync(folder, copy, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as Record<string, number>;
  for (const field of ["num_attention_heads", "num_key_value_heads"]) config[field] = (config[field] ?? 0) / 2;
  writeFileSync(join(copy, "config.json"), JSON.stringify({ ...config, head_dim: 32 }));
  return copy;
}

interface Reading {
  readonly logits: readonly Float32Array[];
  readonly perplexity: number;
}

/** Two chunks a text, the second of which reads the first from the cache; `blocks` say where it lies. */
async function read(
  { modelDir, texts }: Model,
  options: Partial<DecoderRunnerOptions>,
  blocks = contiguousBlocks(0, NUM_BLOCKS),
): Promise<Reading> {
  const runner = await createDecoderRunner({
    modelDir,
    numBlocks: NUM_BLOCKS,
    blockSize: 16,
    numThreads: 1,
    ...options,
  });
  const logits: Float32Array[] = [];
  let sum = 0;
  let count = 0;
  for (const text of texts) {
    const sequence = new TestSequence(blocks);
    for (const tokens of [text.slice(0, 20), text.slice(20, -1)]) {
      const logitRows = Int32Array.from(tokens.keys());
      const rows = await runner.run({ ...stepOf(runner, [{ sequence, tokens }]), logitRows });
      for (const i of tokens.keys()) {
        const row = rows.slice(i * runner.vocabSize, (i + 1) * runner.vocabSize);
        logits.push(row);
        sum -= logProb(row, text[sequence.numCached + i + 1] ?? 0);
        count += 1;
      }
      sequence.numCached += tokens.length;
    }
  }
  await runner.close();
  return { logits, perplexity: Math.exp(sum / count) };
}

for (const model of MODELS) {
  test(`caches of f16 and q8_0 keep to the logits and the perplexity of f32: ${model.name}`, async (t) => {
    const exact = await read(model, {});
    for (const cacheType of ["f16", "q8_0"] as const) {
      const scattered = contiguousBlocks(0, NUM_BLOCKS).map((i) => (i * 37 + 11) % NUM_BLOCKS);
      for (const [where, blocks] of [
        ["side by side", contiguousBlocks(0, NUM_BLOCKS)],
        ["scattered", scattered],
      ] as const) {
        const actual = await read(model, { cacheType }, blocks);
        const off = Math.max(...actual.logits.map((row, i) => maxDifference(row, exact.logits[i] ?? [])));
        const ratio = actual.perplexity / exact.perplexity - 1;
        t.diagnostic(
          `${cacheType}, blocks ${where}: logits off by ${off.toExponential(1)}, perplexity ` +
            `${actual.perplexity.toFixed(4)} (${(100 * ratio).toFixed(3)} %)`,
        );
        const [bound, perplexityBound] = model.bounds[cacheType];
        assert.ok(off > 0 && off < bound, `logits are off by ${off}`);
        assert.ok(Math.abs(ratio) < perplexityBound, `perplexity is off by ${ratio}`);
      }
    }
  });
}

test("a cache of q8_0 gives the same bits wherever its blocks lie, on a deterministic device", async () => {
  const [model] = MODELS;
  assert.ok(model);
  const options = { cacheType: "q8_0", isDeterministic: true } as const;
  const one = await read(model, options);
  const other = await read(model, options, contiguousBlocks(0, NUM_BLOCKS).reverse());
  assert.deepEqual(other.logits, one.logits);
});

test("heads that are no multiple of 32 are refused in q8_0, naming what fits", async () => {
  const modelDir = `${ROOT}tests/parity/models/llama-2`;
  await assert.rejects(
    createDecoderRunner({ modelDir, numBlocks: 4, blockSize: 16, numThreads: 1, cacheType: "q8_0" }),
    /kv_cache_type q8_0 keeps 32 numbers to a scale, which heads of 16 are no multiple of: take f16 or f32/,
  );
});

for (const cacheType of ["f32", "q8_0"] as const) {
  test(`blocks of ${cacheType} come back from the host KV cache as they went`, async () => {
    const [model] = MODELS;
    assert.ok(model);
    const { modelDir, texts } = model;
    const shape = { numBlocks: 8, numHostBlocks: 4, blockSize: 16, numThreads: 1 };
    const runner = await createDecoderRunner({ modelDir, ...shape, cacheType });
    const text = texts.flat().slice(0, 40);
    const original = new TestSequence([0, 1, 2]);
    await runner.run(stepOf(runner, [{ sequence: original, tokens: text }]));
    original.numCached = text.length;
    const next = stepOf(runner, [{ sequence: original, tokens: [5] }]);
    const expected = (await runner.run(next)).slice();
    // To the host KV cache, there overwritten by what is written back first, and to other blocks of the device.
    const there = Int32Array.of(0, 8, 1, 11, 2, 9);
    const back = Int32Array.of(8, 5, 11, 6, 9, 8, 8, 7);
    const moved = new TestSequence([5, 6, 7]);
    moved.numCached = text.length;
    await runner.run({
      ...next,
      sequences: [],
      tokenIds: new Int32Array(0),
      positions: new Int32Array(0),
      slots: new Int32Array(0),
      logitRows: new Int32Array(0),
      blockCopies: there,
    });
    const actual = await runner.run({ ...stepOf(runner, [{ sequence: moved, tokens: [5] }]), blockCopies: back });
    assert.deepEqual(actual.slice(), expected);
    await runner.close();
  });
}
