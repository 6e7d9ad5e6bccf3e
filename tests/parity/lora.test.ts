/**
 * Adapters against what Hugging Face peft computed with the same tiny models (record_lora.py): alone, several in one ragged
 * batch, and over chunks.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner, type DecoderCpuRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { inspectPeft, readPeft } from "../../server/src/formats/lora/peft.ts";

interface Expected {
  readonly greedy: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

const ADAPTERS = fileURLToPath(new URL("adapters/", import.meta.url));
const MODELS = fileURLToPath(new URL("models/", import.meta.url));
/** 2e-3 is promised; adapters are f32, like the rest. */
const BOUND = 1e-4;
const BLOCKS = 24;

const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;

for (const model of readdirSync(ADAPTERS).sort()) {
  describe(model, () => {
    const names = readdirSync(`${ADAPTERS}${model}`).sort();
    const { prompt } = readJson<{ readonly prompt: readonly number[] }>(`${MODELS}${model}/expected.json`);
    const base = readJson<Expected>(`${MODELS}${model}/expected.json`);
    const expected = names.map((name) => readJson<Expected>(`${ADAPTERS}${model}/${name}/expected.json`));
    const ids: number[] = [];
    let runner: DecoderCpuRunner;

    before(async () => {
      const numBlocks = Math.max(80, BLOCKS * (names.length + 1));
      runner = await createDecoderRunner({ modelDir: `${MODELS}${model}`, numBlocks, blockSize: 4, numThreads: 1 });
      for (const name of names) {
        const { targets } = runner.adapters;
        ids.push(await runner.adapters.load(await readPeft(`${ADAPTERS}${model}/${name}`, targets)));
      }
    });
    after(() => runner.close());

    for (const [i, name] of names.entries()) {
      test(`run() gives the recorded tokens and logits with adapter ${name}`, async (t) => {
        const sequence = new TestSequence(contiguousBlocks(0, BLOCKS), ids[i]);
        const chosen: number[] = [];
        let off = 0;
        let tokens = prompt;
        for (const logits of expected[i]?.logits ?? []) {
          const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
          off = Math.max(off, maxDifference(actual, logits));
          tokens = [argmax(actual)];
          chosen.push(...tokens);
        }
        t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
        assert.deepEqual(chosen, expected[i]?.greedy);
        assert.ok(off < BOUND, `logits are off by ${off}`);
      });
    }

    test("run() keeps adapters apart in one batch, where one sequence has none, prompts come in chunks and rows are mixed", async () => {
      const sequences = [undefined, ...ids].map((id, i) => new TestSequence(contiguousBlocks(i * BLOCKS, BLOCKS), id));
      const wanted = [base, ...expected];
      let parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(0, 5 + i) }));
      await append(runner, parts);
      parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(5 + i) }));
      for (const step of expected[0]?.logits.keys() ?? []) {
        const rows = await append(runner, parts.toReversed());
        for (const [i, row] of rows.toReversed().entries()) {
          const off = maxDifference(row, wanted[i]?.logits[step] ?? []);
          assert.ok(off < BOUND, `step ${step}, sequence ${i}: logits are off by ${off}`);
        }
        parts = sequences.map((sequence, i) => ({ sequence, tokens: [wanted[i]?.greedy[step] ?? 0] }));
      }
    });

    test("run() gathers the rows of an adapter whose sequences do not lie side by side", async () => {
      const [id] = ids;
      const order = [id, undefined, id, undefined, id];
      const sequences = order.map((one, i) => new TestSequence(contiguousBlocks(i * 16, 16), one));
      const [adapted] = expected;
      const rows = await append(
        runner,
        sequences.map((sequence) => ({ sequence, tokens: prompt })),
      );
      for (const [i, row] of rows.entries()) {
        const logits = (order[i] === undefined ? base : adapted)?.logits[0] ?? [];
        assert.ok(maxDifference(row, logits) < BOUND, `sequence ${i}`);
      }
    });
  });
}

test("inspectPeft() tells size and rank without reading the numbers", async () => {
  const runner = await createDecoderRunner({ modelDir: `${MODELS}llama-3.2`, numBlocks: 4, blockSize: 4 });
  const summary = await inspectPeft(`${ADAPTERS}llama-3.2/a`, runner.adapters.targets);
  await runner.close();
  // Two layers, 4 rows of 64 in, and out: 64 of queries and 32 of values.
  assert.deepEqual(summary, { numBytes: 2 * 4 * 4 * (64 + 64 + 64 + 32), maxRank: 4 });
});

test("run() refuses a step that names an adapter which is not there", async () => {
  const runner = await createDecoderRunner({ modelDir: `${MODELS}llama-3.2`, numBlocks: 8, blockSize: 4 });
  const { targets } = runner.adapters;
  const id = await runner.adapters.load(await readPeft(`${ADAPTERS}llama-3.2/a`, targets));
  runner.adapters.unload(id);
  const sequence = new TestSequence(contiguousBlocks(0, 8), id);
  await assert.rejects(
    append(runner, [{ sequence, tokens: [5, 6] }]),
    /sequences\[0\]\.adapter: no adapter 1 is loaded/,
  );
  await runner.close();
});
