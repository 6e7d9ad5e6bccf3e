/**
 * The deterministic mode: logits of a sequence equal to the bit, however it was cut into chunks, wherever its blocks lie
 * and whatever else was in the steps. Every architecture in f32, and nereid-tiny with weights and caches of other types.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  createDecoderRunner,
  type DecoderCpuRunner,
  type DecoderRunnerOptions,
} from "../../server/src/engine/decoder-cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing-sequences.ts";
import { readPeft } from "../../server/src/formats/peft.ts";

const MODELS = fileURLToPath(new URL("models/", import.meta.url));
const NEREID_TINY = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const BLOCK_SIZE = 4;
const FIRST_COMPANY_BLOCK = 512;
const BLOCKS_OF_COMPANY = 32;

/** How a prompt is computed: in which blocks, in which chunks, beside how many others. */
interface Course {
  readonly blocks: readonly number[];
  readonly chunks: readonly number[];
  readonly company: number;
}

/** The last of the chunks takes what is left. */
function coursesOf(numTokens: number): readonly Course[] {
  const numBlocks = Math.ceil(numTokens / BLOCK_SIZE);
  const inOrder = contiguousBlocks(2, numBlocks);
  const scattered = inOrder.map((i) => (i * 37 + 11) % (FIRST_COMPANY_BLOCK - 1));
  return [
    { blocks: inOrder, chunks: [], company: 0 },
    { blocks: scattered, chunks: [], company: 1 },
    { blocks: scattered, chunks: [1, 2, 7, 3], company: 5 },
    { blocks: inOrder, chunks: Array.from({ length: numTokens - 4 }, () => 1), company: 2 },
    { blocks: inOrder, chunks: [numTokens - 6, 1, 1, 1, 1], company: 8 },
  ];
}

/** The rows after the last token of each chunk, by the number of tokens before. */
async function rowsOf(
  runner: DecoderCpuRunner,
  tokens: readonly number[],
  { blocks, chunks, company }: Course,
): Promise<Map<number, Buffer>> {
  const sequence = new TestSequence(blocks);
  const others = Array.from(
    { length: company },
    (_, i) => new TestSequence(contiguousBlocks(FIRST_COMPANY_BLOCK + i * BLOCKS_OF_COMPANY, BLOCKS_OF_COMPANY)),
  );
  const rows = new Map<number, Buffer>();
  for (let at = 0, i = 0; at < tokens.length; i++) {
    const next = tokens.slice(at, at + (chunks[i] ?? tokens.length));
    const parts = others.map((other, number) => ({
      sequence: other.numCached < BLOCKS_OF_COMPANY * BLOCK_SIZE - 1 ? other : restarted(other),
      tokens: [tokens[(at + number) % tokens.length] ?? 0],
    }));
    const results = await append(runner, [...parts, { sequence, tokens: next }]);
    at += next.length;
    rows.set(at, Buffer.from(results.at(-1)?.slice().buffer ?? new ArrayBuffer(0)));
  }
  return rows;
}

function restarted(sequence: TestSequence): TestSequence {
  sequence.numCached = 0;
  return sequence;
}

async function checkCourses(options: Partial<DecoderRunnerOptions> & { modelDir: string }, numTokens: number) {
  const runner = await createDecoderRunner({
    numBlocks: FIRST_COMPANY_BLOCK + 8 * BLOCKS_OF_COMPANY,
    blockSize: BLOCK_SIZE,
    numThreads: 2,
    isDeterministic: true,
    ...options,
  });
  try {
    const tokens = Array.from({ length: numTokens }, (_, i) => (i * 7919 + 13) % Math.min(runner.vocabSize, 6000));
    const expected = new Map<number, Buffer>();
    let numCompared = 0;
    for (const [number, course] of coursesOf(numTokens).entries()) {
      for (const [at, row] of await rowsOf(runner, tokens, course)) {
        const before = expected.get(at);
        expected.set(at, row);
        if (before === undefined) continue;
        numCompared += 1;
        assert.ok(before.equals(row), `course ${number} differs after ${at} tokens`);
      }
    }
    assert.ok(numCompared >= coursesOf(numTokens).length, `only ${numCompared} rows were compared`);
  } finally {
    await runner.close();
  }
}

for (const name of readdirSync(MODELS).sort()) {
  test(`a deterministic runner gives equal bits for ${name}, whatever the course`, async () => {
    await checkCourses({ modelDir: `${MODELS}${name}` }, 40);
  });
}

const TYPES: readonly Pick<DecoderRunnerOptions, "weightType" | "cacheType">[] = [
  { weightType: "f32" },
  { weightType: "bf16" },
  { weightType: "f16", cacheType: "f16" },
  { weightType: "q8_0" },
  { weightType: "f32", cacheType: "q8_0" },
  { weightType: "q4_0", cacheType: "f16" },
];

for (const types of TYPES) {
  const name = `${types.weightType} weights and ${types.cacheType ?? "f32"} cache`;
  test(`a deterministic runner gives equal bits for nereid-tiny with ${name}`, async () => {
    await checkCourses({ modelDir: NEREID_TINY, ...types }, 90);
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
      numThreads: 2,
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
