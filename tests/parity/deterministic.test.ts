/**
 * The deterministic mode: logits of a sequence equal to the bit, however it was cut into chunks, wherever its blocks lie
 * and whatever else was in the steps. Every architecture in f32, and nereid-tiny with weights and caches of other types.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderRunnerOptions } from "../../server/src/engine/cpu/cpu-runner.ts";
import { compareCourses, courseBlocks, coursesOf } from "../../server/src/engine/testing/courses.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { readPeft } from "../../server/src/formats/lora/peft.ts";
import { testSize } from "../support/long-tests.ts";

const MODELS = fileURLToPath(new URL("models/", import.meta.url));
const NEREID_TINY = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const BLOCK_SIZE = 4;

async function checkCourses(options: Partial<DecoderRunnerOptions> & { modelDir: string }, numTokens: number) {
  const courses = coursesOf(numTokens, BLOCK_SIZE);
  const numBlocks = courseBlocks(Math.max(...courses.map(({ company }) => company)));
  const fixed = { numBlocks, blockSize: BLOCK_SIZE, numThreads: 1, isDeterministic: true };
  const runner = await createDecoderRunner({ ...fixed, ...options });
  try {
    const tokens = Array.from({ length: numTokens }, (_, i) => (i * 7919 + 13) % Math.min(runner.vocabSize, 6000));
    const { numCompared, differences } = await compareCourses(runner, tokens, courses);
    assert.deepEqual(differences, []);
    assert.ok(numCompared >= courses.length, `only ${numCompared} rows were compared`);
  } finally {
    await runner.close();
  }
}

for (const name of readdirSync(MODELS).sort()) {
  test(`a deterministic runner gives equal bits for ${name}, whatever the course`, async () => {
    await checkCourses({ modelDir: `${MODELS}${name}` }, 40);
  });
}

const ARCHITECTURES = fileURLToPath(new URL("architectures/", import.meta.url));

for (const name of ["gemma-3n", "gemma-4", "gemma-4-2"]) {
  test(`a deterministic runner gives equal bits for ${name}, whatever the course`, async () => {
    await checkCourses({ modelDir: `${ARCHITECTURES}${name}` }, 40);
  });
}

/** Threads of ggml spin while they wait, which others need the processors for: few tests have two. */
const TYPES: readonly Pick<DecoderRunnerOptions, "weightType" | "cacheType" | "numThreads">[] = [
  { weightType: "f32", numThreads: 2 },
  { weightType: "bf16" },
  { weightType: "f16", cacheType: "f16" },
  { weightType: "q8_0" },
  { weightType: "f32", cacheType: "q8_0" },
  { weightType: "q4_0", cacheType: "f16" },
];

for (const types of TYPES) {
  const name = `${types.weightType} weights and ${types.cacheType ?? "f32"} cache`;
  test(`a deterministic runner gives equal bits for nereid-tiny with ${name}`, async () => {
    await checkCourses({ modelDir: NEREID_TINY, ...types }, testSize(48, 90));
  });
}

test("a deterministic runner gives equal bits where ggml would cut long contexts into ranges and tiles", async () => {
  await checkCourses({ modelDir: NEREID_TINY, weightType: "bf16", maxPositions: 2048 }, 620);
});

const ADAPTERS = fileURLToPath(new URL("adapters/", import.meta.url));

for (const name of readdirSync(ADAPTERS).sort()) {
  test(`a deterministic runner gives equal bits for ${name} with an adapter, alone and among others`, async () => {
    const modelDir = `${MODELS}${name}`;
    const runner = await createDecoderRunner({
      modelDir,
      numBlocks: 64,
      blockSize: 4,
      numThreads: 1,
      isDeterministic: true,
    });
    const [folder = ""] = readdirSync(`${ADAPTERS}${name}`).sort();
    const id = await runner.adapters.load(await readPeft(`${ADAPTERS}${name}/${folder}`, runner.adapters.targets));
    const tokens = Array.from({ length: 20 }, (_, i) => (i * 7919 + 13) % 200);
    const [alone] = await append(runner, [{ sequence: new TestSequence(contiguousBlocks(0, 8), id), tokens }]);
    const order = [undefined, id, id, undefined, id];
    const parts = order.map((one, i) => ({ sequence: new TestSequence(contiguousBlocks(i * 8, 8), one), tokens }));
    await append(
      runner,
      parts.map((part, i) => ({ ...part, tokens: tokens.slice(0, 5 + i) })),
    );
    const rows = await append(
      runner,
      parts.map((part, i) => ({ ...part, tokens: tokens.slice(5 + i) })),
    );
    await runner.close();
    for (const [i, row] of rows.entries()) assert.equal(row.join() === alone?.join(), order[i] === id, `sequence ${i}`);
  });
}
