import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../../kernels/testing/run-op.ts";
import { append, argmax, contiguousBlocks, stepOf, TestSequence } from "../testing/sequences.ts";
import { createDecoderRunner, type DecoderRunnerOptions } from "./cpu-runner.ts";

interface GoldenText {
  readonly prompt: string;
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
  /** Per step the five largest logits: [token id, logit]. */
  readonly top5: readonly (readonly (readonly [number, number])[])[];
}

const MODEL = new URL("../../../../examples/nereid-tiny/", import.meta.url);
const GOLDEN = JSON.parse(readFileSync(new URL("golden_text.json", MODEL), "utf8")) as readonly GoldenText[];
const OPTIONS: DecoderRunnerOptions = {
  modelDir: fileURLToPath(new URL("language_model/", MODEL)),
  numBlocks: 128,
  blockSize: 16,
  numThreads: 1,
};
/** Two f32 sums in another order may differ by this; closer candidates are a tie. */
const TIE_MARGIN = 1e-3;
const LOGIT_BOUND = 2e-2;

const runner = await createDecoderRunner(OPTIONS);
after(() => runner.close());

/** Feeds the recorded tokens; where the largest logit is another token, and how far logits are off. */
async function follow(golden: GoldenText, target = runner): Promise<{ wrong: string[]; ties: string[]; off: number }> {
  const sequence = new TestSequence(contiguousBlocks(0, 20));
  const result = { wrong: [] as string[], ties: [] as string[], off: 0 };
  let tokens = golden.input_ids;
  for (const [step, expected] of golden.output_ids.entries()) {
    const [logits = new Float32Array()] = await append(target, [{ sequence, tokens }]);
    const top = golden.top5[step] ?? [];
    for (const [id, logit] of top) result.off = Math.max(result.off, Math.abs((logits[id] ?? Number.NaN) - logit));
    const margin = (top[0]?.[1] ?? 0) - (top[1]?.[1] ?? 0);
    const actual = argmax(logits);
    if (actual !== expected) (margin < TIE_MARGIN ? result.ties : result.wrong).push(`step ${step}: ${actual}`);
    tokens = [expected];
  }
  return result;
}

for (const [i, golden] of GOLDEN.entries()) {
  test(`run() decodes recorded prompt ${i} token for token, logits within ${LOGIT_BOUND}`, async (t) => {
    const { wrong, ties, off } = await follow(golden);
    t.diagnostic(`largest logit difference ${off.toExponential(1)}, ties that flipped: ${ties.join("; ") || "none"}`);
    assert.deepEqual(wrong, []);
    assert.ok(off < LOGIT_BOUND, `logits are off by ${off}`);
  });
}

test("run() gives a ragged batch what it gives its sequences one by one", async () => {
  const alone: Float32Array[] = [];
  for (const [i, { input_ids: tokens }] of GOLDEN.entries()) {
    alone.push(...(await append(runner, [{ sequence: new TestSequence(contiguousBlocks(20 * i, 20)), tokens }])));
  }
  const decoding = new TestSequence(contiguousBlocks(0, 20));
  const [first] = GOLDEN;
  assert.ok(first);
  await append(runner, [{ sequence: decoding, tokens: first.input_ids.slice(0, -1) }]);
  const parts = GOLDEN.slice(1).map(({ input_ids: tokens }, i) => ({
    sequence: new TestSequence(contiguousBlocks(20 * (i + 1), 20)),
    tokens,
  }));
  const together = await append(runner, [{ sequence: decoding, tokens: first.input_ids.slice(-1) }, ...parts]);
  for (const [i, logits] of together.entries()) assert.ok(maxDifference(logits, alone[i] ?? []) < 1e-4);
});

/** A prompt of some hundred tokens. */
const LONG: readonly number[] = GOLDEN.flatMap(({ input_ids, output_ids }) => [...input_ids, ...output_ids]).slice(
  0,
  500,
);

test("run() gives a chunked prefill what it gives the whole prompt", async () => {
  const [whole = new Float32Array()] = await append(runner, [
    { sequence: new TestSequence(contiguousBlocks(0, 40)), tokens: LONG },
  ]);
  const sequence = new TestSequence(contiguousBlocks(40, 40));
  let last: Float32Array = new Float32Array();
  for (const [start, end] of [
    [0, 1],
    [1, 130],
    [130, 131],
    [131, 400],
    [400, 500],
  ] as const) {
    [last = new Float32Array()] = await append(runner, [{ sequence, tokens: LONG.slice(start, end) }]);
  }
  assert.ok(maxDifference(last, whole) < 1e-3, `${maxDifference(last, whole)}`);
});

test("run() gives scattered blocks what it gives blocks side by side", async () => {
  const scattered = contiguousBlocks(0, 40).map((i) => (i * 37 + 11) % 128);
  const sequences = [new TestSequence(contiguousBlocks(0, 40)), new TestSequence(scattered)];
  const results: Float32Array[] = [];
  for (const sequence of sequences) {
    await append(runner, [{ sequence, tokens: LONG.slice(0, 300) }]);
    results.push(...(await append(runner, [{ sequence, tokens: LONG.slice(300, 301) }])));
  }
  assert.ok(maxDifference(results[0] ?? [], results[1] ?? [1]) < 1e-4);
});

test("run() copies blocks before it computes", async () => {
  const original = new TestSequence(contiguousBlocks(0, 4));
  await append(runner, [{ sequence: original, tokens: LONG.slice(0, 20) }]);
  const copy = new TestSequence([0, 99]);
  copy.numCached = 20;
  const step = stepOf(runner, [{ sequence: copy, tokens: [LONG[20] ?? 0] }]);
  const fromCopy = (await runner.run({ ...step, blockCopies: Int32Array.of(1, 99) })).slice();
  const [expected] = await append(runner, [{ sequence: original, tokens: [LONG[20] ?? 0] }]);
  assert.deepEqual(fromCopy, expected);
});

test("run() without logit rows fills the cache only", async () => {
  const sequence = new TestSequence(contiguousBlocks(0, 4));
  const step = stepOf(runner, [{ sequence, tokens: LONG.slice(0, 20) }]);
  assert.equal((await runner.run({ ...step, logitRows: new Int32Array(0) })).length, 0);
  sequence.numCached = 20;
  const [continued] = await append(runner, [{ sequence, tokens: LONG.slice(20, 21) }]);
  const [whole] = await append(runner, [
    { sequence: new TestSequence(contiguousBlocks(8, 4)), tokens: LONG.slice(0, 21) },
  ]);
  assert.ok(maxDifference(continued ?? [], whole ?? [1]) < 1e-4);
});

test("run() gives the rows that are asked for, in the order asked", async () => {
  const step = stepOf(runner, [{ sequence: new TestSequence(contiguousBlocks(0, 4)), tokens: LONG.slice(0, 9) }]);
  const all = (await runner.run({ ...step, logitRows: Int32Array.from({ length: 9 }, (_, i) => i) })).slice();
  const some = await runner.run({ ...step, logitRows: Int32Array.of(8, 2) });
  const row = (i: number): Float32Array => all.subarray(i * runner.vocabSize, (i + 1) * runner.vocabSize);
  assert.ok(maxDifference(some.subarray(0, runner.vocabSize), row(8)) < 1e-4);
  assert.ok(maxDifference(some.subarray(runner.vocabSize), row(2)) < 1e-4);
});

test("run() takes embeddings in the place of token ids, whatever those are", async () => {
  const sequence = (): TestSequence => new TestSequence(contiguousBlocks(0, 4));
  const plain = stepOf(runner, [{ sequence: sequence(), tokens: [1, 3, 4869, 4] }]);
  const expected = (await runner.run(plain)).slice();
  const zeros = { rows: Int32Array.of(2), values: new Float32Array(runner.hiddenSize).fill(0.25) };
  const replaced = stepOf(runner, [{ sequence: sequence(), tokens: [1, 3, 6150, 4] }]);
  const actual = await runner.run({ ...replaced, embeddings: zeros });
  assert.ok(actual.every(Number.isFinite));
  assert.ok(maxDifference(actual, expected) > 0.1);
});

test("run() refuses a step that breaks the contract and goes on with the next", async () => {
  const good = stepOf(runner, [{ sequence: new TestSequence([0]), tokens: [1, 3] }]);
  await assert.rejects(
    runner.run({ ...good, slots: Int32Array.of(0, 5000) }),
    /step: slots\[1\]: expected 0 to 2047, got 5000/,
  );
  assert.equal((await runner.run(good)).length, runner.vocabSize);
});

test("run() refuses a second step while one is running", async () => {
  const step = stepOf(runner, [{ sequence: new TestSequence([0]), tokens: [1, 3] }]);
  const first = runner.run(step);
  await assert.rejects(runner.run(step), /a step is running/);
  assert.equal((await first).length, runner.vocabSize);
});

test("close() waits for the step in flight, and later steps are refused", async () => {
  const own = await createDecoderRunner(OPTIONS);
  const step = stepOf(own, [{ sequence: new TestSequence([0]), tokens: [1, 3] }]);
  const running = own.run(step);
  await own.close();
  assert.equal((await running).length, own.vocabSize);
  await assert.rejects(own.run(step), /the step runner is closed/);
  await own.close();
});

for (const [weightType, cacheType, bound] of [
  ["bf16", "f32", 0.25],
  ["f16", "f16", 0.05],
] as const) {
  test(`weights of ${weightType} and a cache of ${cacheType} stay within ${bound} of the recorded logits`, async (t) => {
    const own = await createDecoderRunner({ ...OPTIONS, weightType, cacheType });
    const [golden] = GOLDEN;
    assert.ok(golden);
    const { off } = await follow(golden, own);
    await own.close();
    t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
    assert.ok(off < bound, `logits are off by ${off}`);
  });
}
