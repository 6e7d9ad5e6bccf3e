import assert from "node:assert/strict";
import { test } from "node:test";
import { ChoosingRunner } from "../../../../tests/fakes/choosing-runner.ts";
import { HashGuides } from "../../../../tests/fakes/hash-guides.ts";
import { HashRunner } from "../../../../tests/fakes/hash-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import type { ChosenTokens, StepInput, StepRunner, TokenChoice } from "../step-runner.ts";

async function collectTokens(chunks: AsyncIterable<GeneratedChunk>): Promise<number[]> {
  const tokens: number[] = [];
  for await (const chunk of chunks) tokens.push(...chunk.tokenIds);
  return tokens;
}

async function generate(runner: StepRunner, requests: readonly Partial<GenerateRequest>[]): Promise<number[][]> {
  const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG, undefined, { guides: new HashGuides(runner.vocabSize) });
  const outputs = await Promise.all(
    requests.map((request) => collectTokens(engine.generate({ ...NEUTRAL_REQUEST, maxTokens: 12, ...request }))),
  ).finally(() => engine.close());
  return outputs;
}

const SIMPLE: readonly Partial<GenerateRequest>[] = [
  { promptTokens: Int32Array.of(1, 2, 3) },
  { promptTokens: Int32Array.of(4, 5), temperature: 0.7, topK: 5, seed: 3n },
  { promptTokens: Int32Array.of(9), temperature: 1.3, topP: 0.8, minP: 0.05, seed: 4n },
  { promptTokens: Int32Array.of(7, 7, 7, 7), stopWords: [Int32Array.of(8)] },
  { promptTokens: Int32Array.of(6, 2), temperature: 0.9, seed: 8n, topLogProbs: 20, logProbs: true },
  { promptTokens: Int32Array.of(2), topLogProbs: 3 },
];

test("generate() gives the same tokens whether the runner chooses them or the engine", async () => {
  const choosing = new ChoosingRunner();
  assert.deepEqual(await generate(choosing, SIMPLE), await generate(new HashRunner(), SIMPLE));
  assert.equal(choosing.numChosen > 0, true);
});

for (const [what, request] of [
  ["penalties", { repetitionPenalty: 1.5 }],
  ["a bias", { logitBias: new Float32Array(64).fill(3, 10, 20) }],
  ["forbidden words", { badWords: [Int32Array.of(5, 6)] }],
  ["more likely tokens than a device tells of", { topLogProbs: 21, logProbs: true }],
  ["the logits themselves", { generationLogits: true }],
  ["beams", { beamWidth: 2, numReturnBeams: 1 }],
] as const) {
  test(`generate() keeps the choice to itself when a request asks for ${what}`, async () => {
    const choosing = new ChoosingRunner();
    const requests = [{ promptTokens: Int32Array.of(3, 1), maxTokens: 4, ...request }];
    assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
    assert.equal(choosing.numChosen, 0);
  });

  test(`generate() leaves the choice for others to the runner beside a request for ${what}`, async () => {
    const choosing = new ChoosingRunner({ stepsAhead: true });
    const own = { promptTokens: Int32Array.of(3, 1), maxTokens: 9, ...request };
    const requests = [...SIMPLE.slice(0, 2), own, ...SIMPLE.slice(2)];
    assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
    assert.ok(choosing.numChosen >= 4 * 8, `${choosing.numChosen} tokens were chosen`);
    assert.ok(choosing.numSeen > 0 && choosing.numSeen <= 2 * 9, `${choosing.numSeen} rows were seen`);
    const least = what === "beams" ? 1 : 8; // while there are beams every step waits for the one before
    assert.ok(choosing.numAhead >= least, `${choosing.numAhead} steps were begun behind another`);
  });
}

test("generate() takes the rows of prompts and drafts beside rows that the runner chooses for", async () => {
  const choosing = new ChoosingRunner({ stepsAhead: true });
  const requests = [
    ...SIMPLE,
    { promptTokens: Int32Array.of(3, 1, 2, 6), contextLogits: true },
    { promptTokens: Int32Array.of(5, 1, 2), promptLogProbs: true, logProbs: true },
    { promptTokens: Int32Array.of(8, 1), draftTokens: Int32Array.of(1, 2, 3) },
    { promptTokens: Int32Array.of(2, 2), minTokens: 5 },
  ];
  assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
  assert.ok(choosing.numChosen > 0);
});

test("generate() plans ahead beside forbidden tokens and texts of a least length", async () => {
  const choosing = new ChoosingRunner({ stepsAhead: true });
  const requests = [
    { promptTokens: Int32Array.of(3, 1), minTokens: 6, endIds: Int32Array.of(1, 2, 3, 4, 5) },
    { promptTokens: Int32Array.of(3, 2), badWords: [Int32Array.of(5), Int32Array.of(9)], temperature: 2, seed: 5n },
    { promptTokens: Int32Array.of(3, 3), minTokens: 1 },
  ];
  assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
  assert.ok(choosing.numAhead > 0);
  assert.equal(choosing.numSeen, 0);
});

test("generate() leaves penalties and biases to a runner that has tables, and plans ahead", async () => {
  const logitBias = new Float32Array(64).fill(3, 10, 20);
  const requests = [
    ...SIMPLE,
    { promptTokens: Int32Array.of(3, 1, 3), repetitionPenalty: 1.5 },
    { promptTokens: Int32Array.of(6, 6), presencePenalty: 0.8, temperature: 0.9, topP: 0.9, seed: 7n },
    { promptTokens: Int32Array.of(8), frequencyPenalty: 0.5, logitBias, promptIgnoreLength: 1 },
    { promptTokens: Int32Array.of(2, 9), logitBias },
  ];
  const choosing = new ChoosingRunner({ stepsAhead: true, ruleTables: { numCountRows: 3, numBiasRows: 2 } });
  assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
  assert.equal(choosing.numSeen, 0);
  assert.equal(choosing.numCountRows, 3);
  assert.ok(choosing.numAhead > 0);
});

test("generate() chooses for penalties itself once every row of a table is taken, and takes rows that are free again", async () => {
  const requests = [1, 2, 3, 4].map((first) => ({ promptTokens: Int32Array.of(first), repetitionPenalty: 1.4 }));
  const choosing = new ChoosingRunner({ stepsAhead: true, ruleTables: { numCountRows: 1, numBiasRows: 0 } });
  const engine = new LlmEngine(choosing, DEFAULT_ENGINE_CONFIG);
  const outputs: number[][] = [];
  for (const wave of [requests.slice(0, 2), requests.slice(2)]) {
    const asked = wave.map((request) => engine.generate({ ...NEUTRAL_REQUEST, maxTokens: 12, ...request }));
    outputs.push(...(await Promise.all(asked.map(collectTokens))));
  }
  await engine.close();
  assert.deepEqual(outputs, await generate(new HashRunner(), requests));
  assert.equal(choosing.numCountRows, 2);
  assert.ok(choosing.numSeen > 0);
});

test("generate() fails only the sequence whose row holds no number", async () => {
  const runner = new HashRunner();
  const choose = async (input: StepInput, choices: readonly (TokenChoice | undefined)[]): Promise<ChosenTokens> => {
    await runner.run(input);
    const logProbs = new Float32Array(choices.length);
    return { tokens: new Int32Array(choices.length).fill(-1), logProbs, logits: new Float32Array() };
  };
  await assert.rejects(
    generate(Object.assign(runner, { choose }), [{ promptTokens: Int32Array.of(1) }]),
    /no token can be chosen after 1 tokens/,
  );
});

test("an engine that plans ahead fails every request when a step fails, and closes with steps under way", async () => {
  for (const failing of [3, Number.POSITIVE_INFINITY]) {
    const runner = new ChoosingRunner({
      stepsAhead: true,
      onStep: (_, step) => {
        if (step === failing) throw new Error("lost");
      },
    });
    const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG);
    const promptTokens = Int32Array.of(1, 2);
    const outputs = [1, 2, 3].map(() =>
      collectTokens(engine.generate({ ...NEUTRAL_REQUEST, promptTokens, maxTokens: 80 })),
    );
    const settled = Promise.allSettled(outputs);
    while (runner.steps.length < 2) await new Promise<void>((resolve) => setImmediate(resolve));
    if (failing > 3) await engine.close();
    const results = await settled;
    assert.deepEqual(
      results.map(({ status }) => status),
      ["rejected", "rejected", "rejected"],
    );
    await engine.close();
    assert.ok(runner.numAhead > 0);
    assert.ok(runner.isClosed);
  }
});

const LATE: readonly (readonly [string, Partial<GenerateRequest>])[] = [
  ["forbidden words of two tokens", { badWords: [Int32Array.of(5, 6), Int32Array.of(9, 3)] }],
  ["no repeated runs", { noRepeatNgramSize: 2 }],
  ["a decaying top-p", { temperature: 1, topP: 0.9, topPDecay: 0.7, topPMin: 0.1, seed: 3n }],
  ["more forbidden tokens than a choice names", { badWords: Array.from({ length: 9 }, (_, id) => Int32Array.of(id)) }],
  ["a guide", { guide: { type: "json", text: "" }, endIds: Int32Array.of(4) }],
  ["a guide and a least length", { guide: { type: "json", text: "x" }, endIds: Int32Array.of(4), minTokens: 6 }],
];

for (const [what, request] of LATE) {
  test(`generate() lets the runner choose, behind the step ahead, for a request with ${what}`, async () => {
    const choosing = new ChoosingRunner({ stepsAhead: true, choosesLate: true });
    // Steps are not planned ahead of forced runs.
    const requests = [...SIMPLE, { promptTokens: Int32Array.of(3, 1), maxTokens: 12, maxDraftTokens: 0, ...request }];
    assert.deepEqual(await generate(choosing, requests), await generate(new HashRunner(), requests));
    assert.equal(choosing.numSeen, 0);
    assert.ok(choosing.numLate > 0 && choosing.numAhead >= 10, `${choosing.numLate} late, ${choosing.numAhead} ahead`);
  });
}

test("generate() tells of the same likely tokens whether the runner knows them or the engine", async () => {
  const topsOf = async (runner: StepRunner): Promise<unknown[]> => {
    const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG);
    const tops: unknown[] = [];
    for (const topLogProbs of [1, 20, 21]) {
      const request = {
        ...NEUTRAL_REQUEST,
        promptTokens: Int32Array.of(4, 2),
        maxTokens: 5,
        topLogProbs,
        logProbs: true,
      };
      for await (const { extras, logProbs } of engine.generate(request)) {
        tops.push([extras?.topIds, extras?.topLogProbs, logProbs]);
      }
    }
    await engine.close();
    return tops;
  };
  const choosing = new ChoosingRunner();
  assert.deepEqual(await topsOf(choosing), await topsOf(new HashRunner()));
  assert.deepEqual([choosing.numChosen, choosing.numSeen], [10, 5]);
});
