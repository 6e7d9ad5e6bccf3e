/**
 * Models with recurrent layers in the engine: states stay with their sequences side by side, through chunks, preemption and
 * beams. Tokens are compared with those of transformers, and scores of beams with one pass over each whole beam.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { planCpuMemory } from "../../server/src/engine/cpu/memory-demand.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GeneratedChunk, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { createRandom } from "../support/random.ts";

const MODELS = fileURLToPath(new URL("architectures/", import.meta.url));
const NAMES = ["qwen3-next", "granite-4-mamba", "lfm2"];
const SHAPE = { blockSize: 4, numThreads: 1 };

interface Recorded {
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
}

function recorded(name: string): Recorded {
  return JSON.parse(readFileSync(`${MODELS}${name}/expected.json`, "utf8")) as Recorded;
}

async function openEngine(t: TestContext, name: string, numBlocks: number, changes: Partial<EngineConfig>) {
  const config = { ...DEFAULT_ENGINE_CONFIG, maxSequences: 6, ...changes };
  const runner = await createDecoderRunner({ ...SHAPE, modelDir: MODELS + name, numBlocks, numStates: 6 });
  const engine = new LlmEngine(runner, config);
  t.after(() => engine.close());
  return engine;
}

async function lastOf(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; last: GeneratedChunk }> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (last of chunks) tokens.push(...last.tokenIds);
  assert.ok(last !== undefined, "a chunk");
  return { tokens, last };
}

for (const name of NAMES) {
  test(`${name}: requests side by side, in chunks and after preemption, give the recorded tokens`, async (t) => {
    const { prompt, greedy } = recorded(name);
    const engine = await openEngine(t, name, 17, { maxBatchTokens: 25, policy: "max_utilization" });
    const lengths = [0, 0, 2, 0, 0, 4, 1, 3, 0];
    const answers = await Promise.all(
      lengths.map((known) => {
        const promptTokens = Int32Array.from([...prompt, ...greedy.slice(0, known)]);
        return lastOf(engine.generate({ ...NEUTRAL_REQUEST, promptTokens, maxTokens: greedy.length - known }));
      }),
    );
    assert.deepEqual(
      answers.map(({ tokens }) => tokens),
      lengths.map((known) => greedy.slice(known)),
    );
    assert.ok(engine.stats().preemptions > 0, "blocks ran out");
    engine.checkIntegrity();
  });

  test(`${name}: beams go on with copies of the state that they had in common`, async (t) => {
    const { prompt } = recorded(name);
    const engine = await openEngine(t, name, 96, {});
    const promptTokens = Int32Array.from(prompt);
    const request = {
      ...NEUTRAL_REQUEST,
      promptTokens,
      maxTokens: 6,
      beamWidth: 4,
      numReturnBeams: 4,
      endIds: new Int32Array(),
    };
    const { last } = await lastOf(engine.generate(request));
    const runner = await createDecoderRunner({ ...SHAPE, modelDir: MODELS + name, numBlocks: 32 });
    t.after(() => runner.close());
    assert.equal(last.beams?.length, 4);
    for (const { tokenIds, cumLogProb } of last.beams ?? []) {
      const sequence = new TestSequence(contiguousBlocks(0, 16));
      const step = stepOf(runner, [{ sequence, tokens: [...prompt, ...tokenIds.subarray(0, -1)] }]);
      const logitRows = Int32Array.from(tokenIds, (_, i) => prompt.length - 1 + i);
      const logits = await runner.run({ ...step, logitRows });
      let sum = 0;
      for (const [i, token] of tokenIds.entries()) {
        const row = logits.subarray(i * runner.vocabSize, (i + 1) * runner.vocabSize);
        sum += (row[token] ?? 0) - Math.log(row.reduce((mass, value) => mass + Math.exp(value), 0));
      }
      assert.ok(Math.abs(sum - cumLogProb) < 1e-3, `${sum}, reported ${cumLogProb}`);
    }
  });
}

const SNAPSHOTS = { numStates: 6, numSnapshots: 5 };

for (const name of NAMES) {
  test(`${name}: prompts that begin alike take up states, and give the same tokens`, async (t) => {
    const { prompt, greedy } = recorded(name);
    const runner = await createDecoderRunner({ ...SHAPE, ...SNAPSHOTS, modelDir: MODELS + name, numBlocks: 96 });
    const plain = await openEngine(t, name, 96, {});
    const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, maxSequences: 6, maxBatchTokens: 25 });
    t.after(() => engine.close());
    const shared = [...prompt, ...greedy];
    const ends = [[], [7, 9, 11, 13, 15], [8, 9], [], [7, 9, 11, 13, 15, 17, 19, 21], [8, 9]];
    const reused: number[] = [];
    for (const end of ends) {
      const promptTokens = Int32Array.from([...shared, ...end]);
      const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens: 6 };
      const [own, expected] = [await lastOf(engine.generate(request)), await lastOf(plain.generate(request))];
      assert.deepEqual(own.tokens, expected.tokens, `with ${end.length} tokens more`);
      engine.checkIntegrity();
      reused.push(engine.stats().kvBlocksReused);
    }
    // The first computes all; each other takes up a state, but for the one that finds blocks without one.
    assert.deepEqual(reused.slice(0, 1), [0]);
    assert.ok(
      reused.slice(3).every((count, i) => count > (reused[i + 2] ?? 0)),
      `blocks reused: ${reused.join(", ")}`,
    );
  });
}

test("states of many prompts are kept side by side, and the oldest give way", async (t) => {
  const { prompt } = recorded("lfm2");
  const options = { ...SHAPE, ...SNAPSHOTS, modelDir: `${MODELS}lfm2`, numBlocks: 40 };
  const engine = new LlmEngine(await createDecoderRunner(options), {
    ...DEFAULT_ENGINE_CONFIG,
    maxSequences: 6,
    policy: "max_utilization",
  });
  const plain = await openEngine(t, "lfm2", 200, { maxSequences: 6 });
  t.after(() => engine.close());
  const random = createRandom(9);
  const requests = Array.from({ length: 60 }, () => {
    const head = prompt.slice(0, 4 * (1 + random.below(4)));
    const tail = Array.from({ length: random.below(14) }, () => 3 + random.below(3));
    return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from([...head, ...tail]), maxTokens: 1 + random.below(9) };
  });
  const answers = async (by: LlmEngine): Promise<number[][]> => {
    const all = await Promise.all(requests.map((request) => lastOf(by.generate(request))));
    return all.map(({ tokens }) => tokens);
  };
  const expected = await answers(plain);
  for (let round = 0; round < 2; round++) assert.deepEqual(await answers(engine), expected);
  engine.checkIntegrity();
  assert.ok(engine.stats().kvBlocksReused > 60, `${engine.stats().kvBlocksReused} blocks reused`);
});

test("speculative decoding and deterministic logits are refused with models that have states", async () => {
  const runner = await createDecoderRunner({ ...SHAPE, modelDir: `${MODELS}lfm2`, numBlocks: 8 });
  const speculation = { ...DEFAULT_ENGINE_CONFIG.speculation, maxDraftTokens: 2 };
  assert.throws(() => new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, speculation }), /speculative decoding/);
  await runner.close();
  const deterministic = { ...SHAPE, modelDir: `${MODELS}lfm2`, numBlocks: 8, isDeterministic: true };
  await assert.rejects(createDecoderRunner(deterministic), /deterministic: models with recurrent layers/);
});

test("a step without the slots of its states is refused", async (t) => {
  const runner = await createDecoderRunner({ ...SHAPE, modelDir: `${MODELS}lfm2`, numBlocks: 8 });
  t.after(() => runner.close());
  const sequence = new TestSequence(contiguousBlocks(0, 4));
  const step = stepOf({ blockSize: 4 }, [{ sequence, tokens: [5, 6] }]);
  await assert.rejects(runner.run(step), /step: expected 1 states of sequences, got 0/);
});

test("planCpuMemory() counts the states of all sequences beside the cache of the layers that attend", async () => {
  const engine = { ...DEFAULT_ENGINE_CONFIG, maxSequences: 100 };
  const spec = { modelDir: `${MODELS}qwen3-next`, engine, kvCacheTokens: 64, numThreads: 1 };
  const { lines } = await planCpuMemory(spec, 16, 1e9);
  assert.match(lines.join("\n"), /states/);
});
