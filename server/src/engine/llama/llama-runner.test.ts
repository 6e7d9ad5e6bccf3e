import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { DEFAULT_ADAPTERS } from "../adapters/adapter-choice.ts";
import { AdapterLibrary } from "../adapters/adapter-library.ts";
import { createDecoderRunner } from "../cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST, type Usage } from "../request/generate.ts";
import { append, contiguousBlocks, stepOf, TestSequence } from "../testing/sequences.ts";
import { createLlamaRunner } from "./create-runner.ts";
import type { LlamaRunner } from "./llama-runner.ts";

interface RecordedRun {
  readonly prompt: readonly number[];
  readonly output: readonly number[];
  readonly top: readonly (readonly (readonly [id: number, logit: number])[])[];
}

const MODELS = fileURLToPath(new URL("../../../../tests/llama-cpp/models/", import.meta.url));
const EXPECTED = JSON.parse(readFileSync(`${MODELS}expected.json`, "utf8")) as Record<string, readonly RecordedRun[]>;
const NAMES = Object.keys(EXPECTED).filter((name) => !name.endsWith("-lora"));
/** Sums in another order; recorded margins of the chosen tokens are larger. */
const LOGIT_BOUND = 1e-3;

function specOf(name: string, changes: Partial<EngineSpec> = {}, engine: Partial<EngineConfig> = {}): EngineSpec {
  return {
    modelDir: `${MODELS}${name}.gguf`,
    engine: { ...DEFAULT_ENGINE_CONFIG, maxSequences: 8, maxBatchTokens: 32, ...engine },
    kvCacheTokens: 1024,
    kvCache: { type: "f32", bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [] },
    numThreads: 1,
    ...changes,
  };
}

async function openRunner(spec: EngineSpec): Promise<LlamaRunner> {
  return createLlamaRunner(spec, { path: spec.modelDir, reason: "a test asks", blockSize: 16, tell: () => undefined });
}

async function openEngine(t: TestContext, spec: EngineSpec): Promise<LlmEngine> {
  const engine = new LlmEngine(await openRunner(spec), spec.engine);
  t.after(() => engine.close());
  return engine;
}

function requestOf(prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 12, temperature: 0, ...changes };
}

interface Answer {
  readonly tokens: readonly number[];
  readonly usage: Usage | undefined;
  readonly reason: string | undefined;
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; logProbs: number[] }> {
  const tokens: number[] = [];
  const logProbs: number[] = [];
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    logProbs.push(...(chunk.logProbs ?? []));
  }
  return { tokens, logProbs };
}

async function answerOf(chunks: AsyncIterable<GeneratedChunk>): Promise<Answer> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    last = chunk;
  }
  return { tokens, usage: last?.usage, reason: last?.finishReason };
}

for (const name of NAMES) {
  test(`many sequences of ${name} at a time give the recorded tokens of each alone`, async (t) => {
    const engine = await openEngine(t, specOf(name));
    const runs = [...(EXPECTED[name] ?? []), ...(EXPECTED[name] ?? [])];
    const answers = await Promise.all(runs.map(({ prompt }) => answerOf(engine.generate(requestOf(prompt)))));
    assert.deepEqual(
      answers.map(({ tokens }) => tokens),
      runs.map(({ output }) => output),
    );
    engine.checkIntegrity();
  });
}

test("logits of every row are those of libllama one token at a time", async (t) => {
  for (const name of ["deepseek2", "lfm2"]) {
    const runner = await openRunner(specOf(name));
    t.after(() => runner.close());
    const [run] = EXPECTED[name] ?? [];
    assert.ok(run !== undefined, "recorded");
    const sequence = new TestSequence(contiguousBlocks(3, 4));
    const tokens = [...run.prompt, ...run.output];
    await append(runner, [{ sequence, tokens: tokens.slice(0, 7) }]);
    const input = stepOf(runner, [{ sequence, tokens: tokens.slice(7) }]);
    const first = run.prompt.length - 1 - 7;
    const logitRows = Int32Array.from(run.top, (_, i) => first + i);
    const logits = await runner.run({ ...input, logitRows });
    let off = 0;
    for (const [row, top] of run.top.entries()) {
      for (const [id, logit] of top) off = Math.max(off, Math.abs((logits[row * runner.vocabSize + id] ?? 99) - logit));
    }
    assert.ok(off < LOGIT_BOUND, `${name}: logits are off by ${off}`);
  }
});

test("both engines give the same text and log-probabilities of a model that both know", async (t) => {
  const spec = specOf("llama");
  const ours = new LlmEngine(
    await createDecoderRunner({ modelDir: spec.modelDir, numBlocks: 64, blockSize: 16, numThreads: 1 }),
    spec.engine,
  );
  t.after(() => ours.close());
  const other = await openEngine(t, spec);
  for (const { prompt } of EXPECTED.llama ?? []) {
    const request = requestOf(prompt, { logProbs: true, repetitionPenalty: 1.2, topLogProbs: 2 });
    const [a, b] = await Promise.all([collect(ours.generate(request)), collect(other.generate(request))]);
    assert.deepEqual(b.tokens, a.tokens);
    assert.equal(b.logProbs.length, a.tokens.length);
    const off = Math.max(...a.logProbs.map((value, i) => Math.abs(value - (b.logProbs[i] ?? 99))));
    assert.ok(off < LOGIT_BOUND, `log-probabilities are off by ${off}`);
  }
});

test("requests of every kind give beside others, in few blocks, what they give alone", async (t) => {
  for (const name of ["starcoder2", "mamba"]) {
    const [first, second] = EXPECTED[name] ?? [];
    assert.ok(first !== undefined && second !== undefined, "recorded");
    const requests = [
      requestOf(first.prompt),
      requestOf(second.prompt, { temperature: 0.7, seed: 5n, topK: 8, repetitionPenalty: 1.3 }),
      requestOf(first.prompt.slice(0, 18), { maxTokens: 30, temperature: 1, seed: 9n, topP: 0.8 }),
      requestOf(second.prompt, { beamWidth: 3, numReturnBeams: 2 }),
      requestOf([1, 5, 9], { maxTokens: 40, presencePenalty: 0.5 }),
      requestOf(first.prompt, { stopWords: [Int32Array.from(first.output.slice(2, 4))], maxTokens: 30 }),
    ];
    const alone = await openEngine(t, specOf(name, {}, { maxSequences: 8 }));
    const expected: Answer[] = [];
    for (const each of requests) expected.push(await answerOf(alone.generate(each)));
    const tight = { policy: "max_utilization", maxBatchTokens: 24 } as const;
    const crowded = await openEngine(t, specOf(name, { kvCacheTokens: 16 * 14 }, tight));
    const answers = await Promise.all([...requests, ...requests].map((each) => answerOf(crowded.generate(each))));
    assert.deepEqual(
      answers.map(({ tokens, reason }) => [tokens, reason]),
      [...expected, ...expected].map(({ tokens, reason }) => [tokens, reason]),
      name,
    );
    crowded.checkIntegrity();
    assert.equal(answers[5]?.reason, "stop");
  }
});

test("a prefix is computed once, and again where libllama had to forget it", async (t) => {
  const [run] = EXPECTED.cohere2 ?? [];
  assert.ok(run !== undefined, "recorded");
  const engine = await openEngine(t, specOf("cohere2"));
  const blocks = async (): Promise<number> =>
    (await answerOf(engine.generate(requestOf(run.prompt)))).usage?.reusedBlocks ?? -1;
  assert.deepEqual([await blocks(), await blocks()], [0, 1]);
  // More conversations than memories: the first ones are forgotten there, and their blocks are not.
  const small = await openEngine(t, specOf("cohere2", {}, { maxSequences: 1 }));
  const prompts = Array.from({ length: 40 }, (_, i) => [...run.prompt.slice(0, 16).reverse(), 3 + i, ...run.prompt]);
  const outputs: (readonly number[])[] = [];
  for (const prompt of [...prompts.slice(0, 3), ...prompts, ...prompts.slice(0, 3)]) {
    outputs.push((await answerOf(small.generate(requestOf(prompt, { maxTokens: 3 })))).tokens);
  }
  assert.deepEqual(outputs.slice(0, 3), outputs.slice(-3));
});

test("states that cannot be cut are not reused, and drafts give the same tokens", async (t) => {
  const speculation = { maxDraftTokens: 3, ngramSize: 2 };
  for (const name of ["mamba", "starcoder2"]) {
    const [run] = EXPECTED[name] ?? [];
    assert.ok(run !== undefined, "recorded");
    const engine = await openEngine(t, specOf(name, {}, { speculation }));
    const prompt = [...run.prompt, ...run.output, ...run.prompt];
    const plain = await openEngine(t, specOf(name));
    const expected = await answerOf(plain.generate(requestOf(prompt, { maxTokens: 30 })));
    const drafted = await answerOf(engine.generate(requestOf(prompt, { maxTokens: 30 })));
    assert.deepEqual(drafted.tokens, expected.tokens);
    const again = await answerOf(plain.generate(requestOf(prompt, { maxTokens: 1 })));
    assert.equal((again.usage?.reusedBlocks ?? 0) > 0, name === "starcoder2");
  }
});

test("a cancelled request ends and leaves the others as they are", async (t) => {
  const [first, second] = EXPECTED.deepseek2 ?? [];
  assert.ok(first !== undefined && second !== undefined, "recorded");
  const engine = await openEngine(t, specOf("deepseek2"));
  const controller = new AbortController();
  const cancelled = answerOf(engine.generate(requestOf(first.prompt, { maxTokens: 200, signal: controller.signal })));
  const kept = answerOf(engine.generate(requestOf(second.prompt)));
  setImmediate(() => controller.abort());
  assert.equal((await cancelled).reason, "cancelled");
  assert.deepEqual((await kept).tokens, second.output);
  assert.equal(engine.stats().active, 0);
});

test("a prompt longer than the cache, an embedding table and settings that libllama cannot follow are refused", async (t) => {
  const engine = await openEngine(t, specOf("starcoder2", { kvCacheTokens: 64 }));
  await assert.rejects(answerOf(engine.generate(requestOf(Array.from({ length: 65 }, () => 5)))), {
    message: /^Prompt length \(65\) exceeds maximum input length \(63\): shorten the prompt/,
  });
  const promptTable = { numRows: 1, values: new Float32Array(32) };
  await assert.rejects(answerOf(engine.generate(requestOf([5, 98], { promptTable }))), {
    message: "the prompt has an embedding table, which the llama.cpp engine does not take: use engine nereid",
  });
  const full = await answerOf(engine.generate(requestOf([1, 5], { maxTokens: 500 })));
  assert.deepEqual([full.reason, full.tokens.length], ["length", 62]);
  const settings: readonly (readonly [Partial<EngineSpec>, RegExp])[] = [
    [{ isDeterministic: true }, /^parameter 'deterministic': the llama.cpp engine gives logits that depend on/],
    [{ weightType: "bf16" }, /^parameter 'weight_type': the llama.cpp engine computes with the weights as the file/],
    [
      { engine: { ...DEFAULT_ENGINE_CONFIG, maxSequences: 300 } },
      /takes at most 256 sequences, got max_num_sequences 300$/,
    ],
    [{ modelDir: `${MODELS}bert.gguf` }, /bert.gguf: bert .*: it gives embeddings and no text$/],
  ];
  for (const [changes, message] of settings)
    await assert.rejects(openRunner(specOf("starcoder2", changes)), { message });
});

test("close() ends a step within an operation", async () => {
  const runner = await openRunner(specOf("mamba"));
  const sequence = new TestSequence(contiguousBlocks(0, 16));
  const step = runner.run(stepOf(runner, [{ sequence, tokens: Array.from({ length: 250 }, (_, i) => i % 90) }]));
  const outcome = step.then(
    () => "computed",
    (error: unknown) => String(error),
  );
  await runner.close();
  assert.match(await outcome, /computed|closed/);
  await assert.rejects(runner.run(stepOf(runner, [{ sequence, tokens: [1] }])), /the step runner is closed/);
});

test("an adapter in a GGUF file changes its own sequences, beside others, until it is unloaded", async (t) => {
  const spec = specOf("starcoder2");
  const runner = await openRunner(spec);
  const adapters = await AdapterLibrary.open(runner.adapters, {
    ...DEFAULT_ADAPTERS,
    folders: [["tiny", `${MODELS}starcoder2-lora.gguf`]],
  });
  const engine = new LlmEngine(runner, spec.engine, undefined, { adapters });
  t.after(() => engine.close());
  const adapter = { kind: "name", text: "tiny" } as const;
  const runs = [
    ...(EXPECTED.starcoder2 ?? []).map((run) => ({ run, adapter: undefined })),
    ...(EXPECTED["starcoder2-lora"] ?? []).map((run) => ({ run, adapter })),
  ];
  assert.notDeepEqual(runs[0]?.run.output, runs[3]?.run.output);
  for (let round = 0; round < 2; round++) {
    const answers = await Promise.all(
      runs.map((each) => answerOf(engine.generate(requestOf(each.run.prompt, { adapter: each.adapter })))),
    );
    assert.deepEqual(
      answers.map(({ tokens }) => tokens),
      runs.map(({ run }) => run.output),
    );
  }
  const id = (await adapters.hold(adapter)).id;
  runner.adapters.unload(id);
  const [first] = EXPECTED.starcoder2 ?? [];
  assert.deepEqual((await answerOf(engine.generate(requestOf(first?.prompt ?? [])))).tokens, first?.output);
  const sequence = new TestSequence(contiguousBlocks(0, 1), id);
  await assert.rejects(append(runner, [{ sequence, tokens: [1] }]), /adapter/);
});

test("adapters of another kind are refused with the file and what is expected", async (t) => {
  const runner = await openRunner(specOf("mamba"));
  t.after(() => runner.close());
  const refusals = [
    [`${MODELS}starcoder2-lora.gguf`, /starcoder2-lora\.gguf: general\.architecture: expected mamba, got starcoder2/],
    [`${MODELS}llama.gguf`, /llama\.gguf: general\.type: expected adapter, got nothing/],
    [
      fileURLToPath(new URL("../../../../tests/parity/adapters", import.meta.url)),
      /expected a GGUF file of an adapter/,
    ],
  ] as const;
  for (const [path, message] of refusals) await assert.rejects(runner.adapters.format.read(path), { message });
});
