import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../tests/fakes/hash-runner.ts";
import { ServerError } from "../core/server-error.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "./engine-config.ts";
import { LlmEngine } from "./llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "./request/generate.ts";

function createEngine(
  runner: HashRunnerOptions = {},
  config: Partial<EngineConfig> = {},
): { engine: LlmEngine; runner: HashRunner } {
  const hashRunner = new HashRunner(runner);
  return { engine: new LlmEngine(hashRunner, { ...DEFAULT_ENGINE_CONFIG, ...config }), runner: hashRunner };
}

function request(prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 12, ...changes };
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; last: GeneratedChunk }> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    last = chunk;
  }
  assert.ok(last !== undefined, "expected");
  return { tokens, last };
}

async function alone(req: GenerateRequest, options: HashRunnerOptions = {}): Promise<number[]> {
  const { engine } = createEngine({ ...options, numBlocks: 256 }, { prefixReuse: false, maxSequences: 1 });
  const { tokens } = await collect(engine.generate(req));
  await engine.close();
  return tokens;
}

/** Requests of every kind: greedy, sampled with a seed, penalised. */
function mixedRequests(count: number): GenerateRequest[] {
  return Array.from({ length: count }, (_, i) =>
    request(
      Array.from({ length: 1 + ((i * 7) % 23) }, (_, j) => (i % 3 === 0 ? j : (i * j + i) % 64)),
      i % 2 === 0
        ? { maxTokens: 1 + ((i * 5) % 30) }
        : { maxTokens: 20, topK: 0, topP: 0.9, seed: BigInt(i), temperature: 0.7, repetitionPenalty: 1.3 },
    ),
  );
}

test("generate() gives in a batch what it gives alone, for every policy, budget and cache setting", async () => {
  const requests = mixedRequests(24);
  const expected: number[][] = [];
  for (const each of requests) expected.push(await alone(each));
  const settings: Partial<EngineConfig>[] = [
    {},
    { chunkedPrefill: false, maxBatchTokens: 8 },
    { maxBatchTokens: 5, maxSequences: 7 },
    { policy: "max_utilization", maxBatchTokens: 16 },
    { policy: "max_utilization", prefixReuse: false },
  ];
  for (const config of settings) {
    for (const numBlocks of [16, 20, 64]) {
      const { engine } = createEngine({ numBlocks, maxPositions: 60 }, config);
      const results = await Promise.all(requests.map((each) => collect(engine.generate(each))));
      assert.deepEqual(
        results.map((each) => each.tokens),
        expected,
        JSON.stringify({ ...config, numBlocks }),
      );
      engine.checkIntegrity();
      assert.equal(engine.stats().kvBlocksUsed, 0);
      await engine.close();
    }
  }
});

test("generate() preempts under max_utilization and never under guaranteed_no_evict", async () => {
  const counts: number[] = [];
  for (const policy of ["max_utilization", "guaranteed_no_evict"] as const) {
    const { engine } = createEngine({ numBlocks: 8 }, { policy, prefixReuse: false });
    const requests = [1, 2, 3].map((id) => request([id, id, id], { maxTokens: 25 }));
    const results = await Promise.all(requests.map((each) => collect(engine.generate(each))));
    for (const [i, each] of requests.entries()) assert.deepEqual(results[i]?.tokens, await alone(each));
    counts.push(engine.stats().preemptions);
    await engine.close();
  }
  assert.equal((counts[0] ?? 0) > 0, true);
  assert.equal(counts[1], 0);
});

test("generate() lets a new request join a running batch", async () => {
  const joined: Promise<unknown>[] = [];
  const { engine, runner } = createEngine({
    onStep: (_, step) => {
      if (step === 4) joined.push(collect(engine.generate(request([2], { maxTokens: 5 }))));
    },
  });
  await collect(engine.generate(request([1], { maxTokens: 12 })));
  await Promise.all(joined);
  assert.deepEqual(
    runner.steps.map((step) => step.numSequences),
    [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1],
  );
  await engine.close();
});

test("generate() reuses the blocks of an equal prefix and gives the same tokens", async () => {
  const prompt = Array.from({ length: 18 }, (_, i) => i);
  const { engine, runner } = createEngine();
  const first = await collect(engine.generate(request(prompt)));
  const second = await collect(engine.generate(request(prompt)));
  const salted = await collect(engine.generate(request(prompt, { cacheSalt: "other" })));
  assert.deepEqual(second.tokens, first.tokens);
  assert.deepEqual(salted.tokens, first.tokens);
  assert.equal(first.last.usage?.reusedBlocks, 0);
  assert.equal(second.last.usage?.reusedBlocks, 4);
  assert.equal(salted.last.usage?.reusedBlocks, 0);
  assert.equal(runner.steps[12]?.numTokens, 2);
  await engine.close();
});

test("generate() ends on length, end id, stop word and abort, each with its reason", async () => {
  const free = await alone(request([7, 8, 9]));
  const [a = 0, b = 0, c = 0] = free;
  const { engine } = createEngine();
  const run = (changes: Partial<GenerateRequest>): ReturnType<typeof collect> =>
    collect(engine.generate(request([7, 8, 9], changes)));

  const length = await run({});
  assert.deepEqual([length.tokens, length.last.finishReason], [free, "length"]);
  const end = await run({ endIds: Int32Array.of(63, c) });
  assert.deepEqual([end.tokens, end.last.finishReason], [free.slice(0, free.indexOf(c)), "end"]);
  const stop = await run({ stopWords: [Int32Array.of(a, c), Int32Array.of(a, b, c)] });
  assert.deepEqual([stop.tokens, stop.last.finishReason], [[a, b, c], "stop"]);
  const promptOnly = await run({ stopWords: [Int32Array.of(9, a)] });
  assert.equal(promptOnly.last.finishReason, "length");
  const minimum = await run({ endIds: Int32Array.of(a), minTokens: 4, maxTokens: 4 });
  assert.equal(minimum.tokens.length, 4);
  assert.equal(!minimum.tokens.includes(a), true);
  const aborted = await run({ signal: AbortSignal.abort() });
  assert.deepEqual([aborted.tokens, aborted.last.finishReason], [[], "cancelled"]);
  await engine.close();
});

test("generate() never gives a bad word, alone or at the end of a longer one", async () => {
  const free = await alone(request([7, 8, 9]));
  const [a = 0, b = 0] = free;
  const { engine } = createEngine();
  const single = await collect(engine.generate(request([7, 8, 9], { badWords: [Int32Array.of(a)] })));
  assert.equal(!single.tokens.includes(a), true);
  const pair = await collect(engine.generate(request([7, 8, 9], { badWords: [Int32Array.of(a, b)] })));
  assert.equal(pair.tokens[0], a);
  assert.equal(!pair.tokens.some((token, i) => token === a && pair.tokens[i + 1] === b), true);
  await engine.close();
});

test("cancel frees the blocks within one step", async () => {
  const controller = new AbortController();
  const used: number[] = [];
  const { engine, runner } = createEngine({
    stepMs: 1,
    onStep: (_, step) => {
      if (step === 3) controller.abort();
      used.push(engine.stats().kvBlocksUsed);
    },
  });
  const kept = collect(engine.generate(request([5], { maxTokens: 8 })));
  const gone = collect(engine.generate(request([6, 6, 6], { maxTokens: 100, signal: controller.signal })));
  assert.equal((await gone).last.finishReason, "cancelled");
  await kept;
  assert.deepEqual(
    runner.steps.map((step) => step.numSequences),
    [2, 2, 2, 2, 1, 1, 1, 1],
  );
  assert.equal((used[4] ?? 99) < (used[3] ?? 0), true);
  assert.equal(engine.stats().kvBlocksUsed, 0);
  await engine.close();
});

test("leaving the iteration early cancels the sequence", async () => {
  const { engine } = createEngine();
  for await (const chunk of engine.generate(request([1], { maxTokens: 200 }))) {
    assert.equal(chunk.tokenIds.length, 1);
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(engine.stats().active, 0);
  await engine.close();
});

test("a slow reader loses nothing and holds nobody back", async () => {
  const { engine } = createEngine();
  const slow = engine.generate(request([1], { maxTokens: 50 }))[Symbol.asyncIterator]();
  const quick = await collect(engine.generate(request([2], { maxTokens: 60 })));
  assert.equal(quick.tokens.length, 60);
  const { value } = await slow.next();
  assert.deepEqual([...(value?.tokenIds ?? [])], await alone(request([1], { maxTokens: 50 })));
  assert.equal(value?.finishReason, "length");
  assert.equal((await slow.next()).done, true);
  await engine.close();
});

test("generate() refuses what can never run, with the reason", async () => {
  const { engine } = createEngine({ numBlocks: 4 });
  const cases: [GenerateRequest, RegExp][] = [
    [request([]), /no tokens/],
    [request([64]), /input id 64 at position 0 is outside the vocabulary, expected 0 to 63/],
    [request([-1]), /input id -1/],
    [request(new Array<number>(16).fill(1)), /Prompt length \(16\) exceeds maximum input length \(15\)/],
    [request([1], { temperature: Number.NaN }), /temperature is NaN/],
    [request([1], { topP: 1.5 }), /top_p is 1.5/],
    [request([1], { repetitionPenalty: 0 }), /repetition_penalty/],
    [request([1], { maxTokens: 0 }), /number of new tokens is 0/],
    [request([1], { stopWords: [new Int32Array(0)] }), /empty entry among the stop words/],
    [request([1], { logitBias: new Float32Array(3) }), /embedding bias has 3 values/],
    [request([1], { promptTable: { numRows: 2, values: new Float32Array(3) } }), /prompt embedding table/],
  ];
  for (const [each, message] of cases) {
    await assert.rejects(
      collect(engine.generate(each)),
      (error) => error instanceof ServerError && error.code === "invalid_argument" && message.test(error.message),
    );
  }
  const cut = await collect(engine.generate(request([1], { maxTokens: 1000 })));
  assert.equal(cut.tokens.length, 15);
  await engine.close();
});

test("generate() refuses more waiting requests than allowed", async () => {
  const { engine } = createEngine({}, { maxSequences: 1, maxWaiting: 2 });
  const all = await Promise.allSettled([1, 2, 3, 4].map((id) => collect(engine.generate(request([id])))));
  assert.deepEqual(
    all.map((each) => each.status),
    ["fulfilled", "fulfilled", "rejected", "rejected"],
  );
  await engine.close();
});

test("a failing step fails what is in the engine once, and the engine refuses from then on", async () => {
  const { engine } = createEngine({
    onStep: (_, step) => {
      if (step === 2) throw new Error("device lost");
    },
  });
  const both = await Promise.allSettled([1, 2].map((id) => collect(engine.generate(request([id])))));
  for (const each of both) {
    assert.equal(each.status, "rejected");
    assert.match(String(each.status === "rejected" && each.reason), /a step of the engine failed: device lost/);
  }
  await assert.rejects(collect(engine.generate(request([3]))), /device lost/);
  await engine.close();
});

test("close() fails what still runs and frees the runner", async () => {
  const { engine, runner } = createEngine({ stepMs: 2 });
  const running = collect(engine.generate(request([1], { maxTokens: 200 })));
  const failure = assert.rejects(running, /the engine is closed/);
  await new Promise((resolve) => setTimeout(resolve, 10));
  await engine.close();
  await failure;
  assert.equal(runner.isClosed, true);
});

test("generate() takes rows of a prompt table where ids lie beyond the vocabulary", async () => {
  const { engine } = createEngine();
  const table = (first: number): GenerateRequest["promptTable"] => ({
    numRows: 2,
    values: Float32Array.of(first, 0, 0, 0, 2, 0, 0, 0),
  });
  const prompt = [1, 64, 65, 2, 3, 4];
  const one = await collect(engine.generate(request(prompt, { promptTable: table(0.5) })));
  const same = await collect(engine.generate(request(prompt, { promptTable: table(0.5) })));
  const other = await collect(engine.generate(request(prompt, { promptTable: table(0.25) })));
  assert.deepEqual(same.tokens, one.tokens);
  assert.equal(same.last.usage?.reusedBlocks, 1);
  assert.equal(other.last.usage?.reusedBlocks, 0);
  assert.notDeepEqual(other.tokens, one.tokens);
  await engine.close();
});

test("generate() reports log-probabilities of the model's own distribution", async () => {
  const { engine } = createEngine();
  const { tokens, last } = await collect(
    engine.generate(request([3], { logProbs: true, maxTokens: 5, temperature: 0 })),
  );
  assert.equal(tokens.length, 5);
  assert.equal(last.cumLogProb < 0 && last.cumLogProb > -5 * Math.log(64), true);
  await engine.close();
});
