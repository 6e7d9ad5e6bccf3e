/**
 * The engine with a runner for GPUs whose kernels run on emulated threads: draft tokens change no token, blocks that went to the
 * host's memory come back as they were, and each request gets its adapter.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type { CudaRunnerOptions } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { HashGuides } from "../fakes/hash-guides.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu } from "./emulated-gpu.ts";
import { generateAdapted } from "./generate-adapted.ts";
import { generateAgain } from "./generate-again.ts";
import { openEmulated } from "./open-emulated.ts";

const PARITY = fileURLToPath(new URL("../parity/", import.meta.url));
const MODEL = `${PARITY}models/llama-3.2/`;
const BLOCK_SIZE = 16;
/** Keys and values of 32 elements of f32 in two layers. */
const BLOCK_BYTES = 2 * 2 * 32 * 4 * BLOCK_SIZE;

const compiler = hostCompiler();
const skip = compiler.reason ?? false;

function openRunner(gpu: EmulatedGpu, changes: Partial<CudaRunnerOptions> = {}): Promise<DecoderCudaRunner> {
  const sizes = { blockSize: BLOCK_SIZE, numBlocks: 24, maxTokens: 128, maxSequences: 4 };
  return openEmulated(gpu, { modelDir: MODEL, type: "f32", ...sizes, ...changes });
}

/** The second one says the same again and again, so that looking it up succeeds. */
const PROMPTS = [
  [11, 7, 30, 4, 9],
  [5, 6, 7, 5, 6, 7, 5, 6, 7, 5, 6],
];
const REQUESTS = PROMPTS.map((prompt) => greedyRequest(prompt, 10));

test("an engine on an emulated GPU gives the same tokens with draft tokens of a model and of n-gram look-up", {
  skip,
}, async () => {
  const plain = engineOf(await openRunner(new EmulatedGpu(compiler)));
  const expected = await generateTokens(plain, REQUESTS);
  await plain.close();
  assert.deepEqual(
    expected.map(({ length }) => length),
    [10, 10],
  );
  const speculation = { maxDraftTokens: 3, ngramSize: 0 };
  const gpu = new EmulatedGpu(compiler);
  const drafter = new ModelDrafter(await openRunner(new EmulatedGpu(compiler)), speculation, 128);
  const drafting = engineOf(await openRunner(gpu), { speculation }, { drafter });
  assert.deepEqual(await generateTokens(drafting, REQUESTS), expected);
  // Nearly all draft tokens of the same model are accepted.
  const { acceptedDraftTokens } = drafting.stats();
  assert.ok(acceptedDraftTokens >= 10, `${acceptedDraftTokens} of 20 draft tokens accepted`);
  await drafting.close();
  const lookingUp = engineOf(await openRunner(new EmulatedGpu(compiler)), {
    speculation: { maxDraftTokens: 4, ngramSize: 2 },
  });
  assert.deepEqual(await generateTokens(lookingUp, REQUESTS), expected);
  await lookingUp.close();
});

test("an engine on an emulated GPU goes on from blocks that come back from the host's memory", { skip }, async () => {
  const gpu = new EmulatedGpu(compiler);
  const runner = await openRunner(gpu, { numBlocks: 5, hostBytes: 12 * BLOCK_BYTES });
  const { first, again, numOffloaded, numOnboarded } = await generateAgain(runner);
  assert.deepEqual(again, first);
  assert.ok(numOffloaded >= 2 && numOnboarded >= 4, `${numOffloaded} blocks went, ${numOnboarded} came back`);
  assert.ok((gpu.launched.get("copy_block") ?? 0) >= numOffloaded + numOnboarded);
});

test("an engine on an emulated GPU takes adapters by name and as tasks with their matrices, in turn where few fit", {
  skip,
}, async () => {
  // The largest of them, and no two.
  const room = { maxBytes: 130_000, maxRank: 16 };
  const runner = await openRunner(new EmulatedGpu(compiler), { adapters: room });
  const { texts, wanted, numLoaded } = await generateAdapted(runner, room);
  assert.deepEqual(texts, wanted);
  assert.equal(numLoaded, 1);
});

test("an engine on an emulated GPU chooses with penalties, biases and masks on the device as the engine does itself", {
  skip,
}, async () => {
  const logitBias = Float32Array.from({ length: 256 }, (_, i) => (i % 7 === 0 ? 1.5 : 0));
  const sampled = { temperature: 0.9, topK: 20, seed: 11n };
  const rules = [
    { repetitionPenalty: 1.6 },
    { ...sampled, presencePenalty: 0.9 },
    { frequencyPenalty: 0.7, promptIgnoreLength: 3 },
    { logitBias },
    { ...sampled, logitBias, repetitionPenalty: 0.8, frequencyPenalty: -0.4 },
    { ...sampled, topPDecay: 0.9, topP: 0.95, presencePenalty: 0.5 },
    { badWords: [Int32Array.of(7, 5), Int32Array.of(9)], noRepeatNgramSize: 2 },
    { ...sampled, guide: { type: "json" as const, text: "abc" }, endIds: Int32Array.of(2), minTokens: 5 },
    {},
  ];
  const requests = rules.map((rule, i) => ({ ...greedyRequest([...(PROMPTS[i % 2] ?? []), 20 + i], 8), ...rule }));
  const answers: number[][][] = [];
  const launched: number[] = [];
  for (const hasTables of [true, false]) {
    const gpu = new EmulatedGpu(compiler);
    const runner = await openRunner(gpu, { maxSequences: 8, usesGraphs: true });
    if (!hasTables) Object.assign(runner, { ruleTables: undefined, chooseLate: undefined });
    const guides = new HashGuides(runner.vocabSize);
    const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, maxSequences: 8 }, undefined, { guides });
    answers.push(await generateTokens(engine, requests));
    launched.push(gpu.launched.get("token_counts") ?? 0);
    await engine.close();
  }
  assert.deepEqual(answers[0], answers[1]);
  assert.ok((launched[0] ?? 0) > 0);
  assert.equal(launched[1], 0);
});

test("an engine on an emulated GPU chooses behind tokens that guides force, under the mask of each", {
  skip,
}, async () => {
  const guided = { guide: { type: "json" as const, text: "abc" }, endIds: Int32Array.of(2), temperature: 0.9 };
  const rules = [{ topK: 20, seed: 11n }, { topK: 1 }, { topK: 0, topP: 0.9, seed: 12n }];
  const requests = rules.map((rule, i) => ({
    ...greedyRequest([...(PROMPTS[i % 2] ?? []), 20 + i], 12),
    ...guided,
    ...rule,
  }));
  const answers: number[][][] = [];
  for (const maxDraftTokens of [-1, 0]) {
    const runner = await openRunner(new EmulatedGpu(compiler), { usesGraphs: true });
    // Forced tokens are not drafted where steps are planned ahead.
    Object.defineProperty(runner, "stepsAhead", { value: false });
    const services = { guides: new HashGuides(runner.vocabSize) };
    const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, maxSequences: 4 }, undefined, services);
    let numSeen = 0;
    const { run } = runner;
    runner.run = (input): Promise<Float32Array> => {
      numSeen += 1;
      return run.call(runner, input);
    };
    answers.push(
      await generateTokens(
        engine,
        requests.map((request) => ({ ...request, maxDraftTokens })),
      ),
    );
    assert.equal(numSeen, 0, "steps whose logits were copied");
    assert.equal(engine.stats().acceptedDraftTokens > 0, maxDraftTokens !== 0);
    await engine.close();
  }
  assert.deepEqual(answers[0], answers[1]);
});
