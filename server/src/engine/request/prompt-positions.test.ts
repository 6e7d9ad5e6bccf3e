/** Prompts whose tokens stand at a time, a row and a column. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../../tests/fakes/hash-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "./generate.ts";

const VOCAB = 64;
const TABLE = { numRows: 4, values: new Float32Array(16).fill(0.5) };
/** One text token, an image of 2 x 2, one text token. */
const PROMPT = [5, VOCAB, VOCAB + 1, VOCAB + 2, VOCAB + 3, 6];
const POSITIONS = [0, 1, 1, 1, 1, 3, 0, 1, 1, 2, 2, 3, 0, 1, 2, 1, 2, 3];

function request(changes: Partial<GenerateRequest> = {}): GenerateRequest {
  const promptTokens = Int32Array.from(PROMPT);
  const promptPositions = Int32Array.from(POSITIONS);
  return { ...NEUTRAL_REQUEST, promptTokens, promptTable: TABLE, promptPositions, maxTokens: 3, ...changes };
}

/** An engine, and the axes of each of its steps. */
function engineOf(options: HashRunnerOptions, config: Partial<EngineConfig> = {}) {
  const steps: (number[] | undefined)[] = [];
  const runner = new HashRunner({
    ...options,
    onStep: ({ axes }) => steps.push(axes === undefined ? undefined : [...axes]),
  });
  return { steps, engine: new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, ...config }) };
}

async function last(chunks: AsyncIterable<GeneratedChunk>): Promise<GeneratedChunk | undefined> {
  let chunk: GeneratedChunk | undefined;
  for await (chunk of chunks);
  return chunk;
}

test("output goes on behind the largest position of the prompt", async () => {
  const { engine, steps } = engineOf({ hasAxes: true });
  await last(engine.generate(request()));
  assert.deepEqual(steps, [POSITIONS, [4, 4, 4], [5, 5, 5]]);
  await engine.close();
});

test("chunks of a prompt have their own part of the positions", async () => {
  const { engine, steps } = engineOf({ hasAxes: true }, { maxBatchTokens: 4 });
  await last(engine.generate(request({ maxTokens: 1 })));
  assert.deepEqual(steps, [
    [0, 1, 1, 1, 0, 1, 1, 2, 0, 1, 2, 1],
    [1, 3, 2, 3, 2, 3],
  ]);
  await engine.close();
});

test("a request without positions beside one that has them stands at its places", async () => {
  const { engine, steps } = engineOf({ hasAxes: true });
  const plain = request({ promptTokens: Int32Array.of(7, 8), promptTable: undefined, promptPositions: undefined });
  await Promise.all([
    last(engine.generate(request({ maxTokens: 1 }))),
    last(engine.generate({ ...plain, maxTokens: 1 })),
  ]);
  const [, rows = [], columns = []] = [0, 1, 2].map((axis) => steps[0]?.slice(8 * axis, 8 * axis + 8));
  assert.deepEqual(rows, [0, 1, 1, 2, 2, 3, 0, 1]);
  assert.deepEqual(columns, [0, 1, 2, 1, 2, 3, 0, 1]);
  await engine.close();
});

test("the same rows in another shape are another prompt for the prefix cache", async () => {
  const { engine } = engineOf({ hasAxes: true });
  const long = (positions: readonly number[]): GenerateRequest =>
    request({ promptPositions: Int32Array.from(positions) });
  const line = [0, 1, 1, 1, 1, 5, 0, 1, 1, 1, 1, 5, 0, 1, 2, 3, 4, 5];
  const [square, other, again] = [
    await last(engine.generate(long(POSITIONS))),
    await last(engine.generate(long(line))),
    await last(engine.generate(long(POSITIONS))),
  ].map((chunk) => chunk?.usage?.reusedBlocks);
  assert.deepEqual([square, other, again], [0, 0, 1]);
  await engine.close();
});

const WITHOUT = { promptTable: undefined, promptPositions: undefined };
for (const { name, options = { hasAxes: true }, changes, expected } of [
  {
    name: "positions for a model without axes",
    options: {},
    changes: {},
    expected: /this model has one position for each token/,
  },
  { name: "a table without positions", changes: { promptPositions: undefined }, expected: /needs mrope_position_ids/ },
  {
    name: "too few positions",
    changes: { promptPositions: new Int32Array(6) },
    expected: /has 6 numbers, expected 3 for each of 6 prompt tokens/,
  },
  {
    name: "positions beyond the prompt",
    changes: { promptPositions: new Int32Array(18).fill(6) },
    expected: /6 at 0, expected 0 to 5/,
  },
  {
    name: "positions below 0",
    changes: { ...WITHOUT, promptTokens: Int32Array.of(1), promptPositions: Int32Array.of(0, 0, -1) },
    expected: /-1 at 2, expected 0 to 0/,
  },
]) {
  test(`the engine refuses ${name}`, async () => {
    const { engine } = engineOf(options);
    await assert.rejects(last(engine.generate(request(changes))), expected);
    await engine.close();
  });
}
