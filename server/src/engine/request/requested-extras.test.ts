/** Extras that requests may ask for: logits and log-probabilities of prompt and output, guides, hooks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../../tests/fakes/hash-runner.ts";
import { ServerError } from "../../core/server-error.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import type { EngineServices } from "../engine-services.ts";
import type { GuideSession, Guides } from "../guide/guides.ts";
import { LlmEngine } from "../llm-engine.ts";
import { logProb } from "../sample/log-probs.ts";
import { argmax } from "../sample/sampler.ts";
import { append, contiguousBlocks, TestSequence } from "../testing/sequences.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "./generate.ts";
import { EXTRA_KINDS, ExtrasBuffer } from "./generated-extras.ts";

const VOCAB = 64;

function engineOf(
  options: HashRunnerOptions = {},
  config: Partial<EngineConfig> = {},
  services: EngineServices = {},
): LlmEngine {
  return new LlmEngine(new HashRunner(options), { ...DEFAULT_ENGINE_CONFIG, ...config }, () => undefined, services);
}

function request(prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 6, ...changes };
}

interface Collected {
  readonly tokens: number[];
  readonly extras: ReturnType<ExtrasBuffer["take"]>;
  readonly last: GeneratedChunk | undefined;
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<Collected> {
  const tokens: number[] = [];
  const buffer = new ExtrasBuffer();
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    for (const kind of EXTRA_KINDS) if (chunk.extras !== undefined) buffer.add(kind, chunk.extras[kind]);
    last = chunk;
  }
  return { tokens, extras: buffer.take(), last };
}

/** The logits after each token of a text. */
async function rowsOf(tokens: readonly number[]): Promise<Float32Array[]> {
  const runner = new HashRunner();
  const sequence = new TestSequence(contiguousBlocks(0, 40));
  const rows: Float32Array[] = [];
  for (const token of tokens) rows.push(...(await append(runner, [{ sequence, tokens: [token] }])));
  return rows;
}

const ALL: Partial<GenerateRequest> = {
  contextLogits: true,
  generationLogits: true,
  promptLogProbs: true,
  topLogProbs: 3,
  logProbs: true,
};

async function assertAll(prompt: readonly number[], { tokens, extras }: Collected, what: string): Promise<void> {
  const rows = await rowsOf([...prompt, ...tokens]);
  const flat = (part: readonly Float32Array[]): number[] => part.flatMap((row) => [...row]);
  const generating = rows.slice(prompt.length - 1, -1);
  assert.deepEqual([...extras.contextLogits], flat(rows.slice(0, prompt.length)), what);
  assert.deepEqual([...extras.generationLogits], flat(generating), what);
  assert.equal(extras.promptLogProbs.length, prompt.length - 1, what);
  for (const [i, value] of extras.promptLogProbs.entries()) {
    const expected = logProb(rows[i] ?? new Float32Array(0), prompt[i + 1] ?? 0);
    assert.equal(Math.abs(value - expected) < 1e-6, true, what);
  }
  assert.deepEqual(
    [...extras.topIds].filter((_, i) => i % 3 === 0),
    generating.map(argmax),
    what,
  );
  assert.deepEqual(
    [...extras.promptTopIds].filter((_, i) => i % 3 === 0),
    rows.slice(0, prompt.length - 1).map(argmax),
    what,
  );
  const best = extras.topLogProbs[0] ?? 0;
  assert.equal(Math.abs(best - logProb(generating[0] ?? new Float32Array(0), tokens[0] ?? 0)) < 1e-6, true, what);
  assert.equal(extras.promptTopLogProbs.length, 3 * (prompt.length - 1), what);
}

test("logits and log-probabilities of prompt and output are complete, once, in chunks, reused and preempted", async () => {
  const prompts = Array.from({ length: 9 }, (_, i) => Array.from({ length: 1 + i * 2 }, (_, j) => (j * 5) % VOCAB));
  let preemptions = 0;
  for (const config of [
    {},
    { maxBatchTokens: 4 },
    { policy: "max_utilization" as const, maxBatchTokens: 9 },
    { policy: "max_utilization" as const, prefixReuse: false },
  ]) {
    const engine = engineOf({ numBlocks: 12, maxPositions: 48 }, config);
    for (let round = 0; round < 2; round++) {
      const results = await Promise.all(prompts.map((prompt) => collect(engine.generate(request(prompt, ALL)))));
      for (const [i, result] of results.entries()) {
        await assertAll(prompts[i] ?? [], result, `${JSON.stringify(config)}, prompt ${i}`);
      }
    }
    engine.checkIntegrity();
    preemptions += engine.stats().preemptions;
    await engine.close();
  }
  assert.equal(preemptions > 0, true);
});

test("a mix of requests in one batch gives each what it gets alone", async () => {
  const mix: Partial<GenerateRequest>[] = [
    {},
    { topK: 0, topP: 0.9, topPDecay: 0.8, topPMin: 0.1, topPResetId: 5, seed: 4n },
    { topK: 0, minP: 0.2, seed: 9n, temperature: 1.5 },
    { noRepeatNgramSize: 2, maxTokens: 30 },
    { beamWidth: 3, numReturnBeams: 2, lengthPenalty: 1, endIds: Int32Array.of(7) },
    { ...ALL },
    { topK: 20, seed: 1n, repetitionPenalty: 1.4, badWords: [Int32Array.of(3)], minTokens: 4 },
  ];
  const prompts = [[1, 2, 3], [9], [40, 41, 42, 43, 44, 45, 46, 47, 48]];
  const requests = prompts.flatMap((prompt) => mix.map((changes) => request(prompt, changes)));
  const alone: Collected[] = [];
  for (const each of requests) {
    const engine = engineOf({}, { prefixReuse: false });
    alone.push(await collect(engine.generate(each)));
    await engine.close();
  }
  const engine = engineOf({ numBlocks: 48 }, { policy: "max_utilization", maxBatchTokens: 11 });
  const together = await Promise.all(requests.map((each) => collect(engine.generate(each))));
  for (const [i, { tokens, extras, last }] of together.entries()) {
    assert.deepEqual(tokens, alone[i]?.tokens, `request ${i}`);
    assert.deepEqual(extras, alone[i]?.extras, `request ${i}`);
    assert.deepEqual(last?.beams, alone[i]?.last?.beams, `request ${i}`);
  }
  await engine.close();
});

/** Allows the token after the last one only, and an end after `last`; answers after a turn of the event loop. */
class CountingGuides implements Guides {
  readonly open_: Set<object> = new Set();
  isClosed = false;

  async open(guide: { readonly text: string }, endIds: Int32Array): Promise<GuideSession> {
    if (guide.text === "bad") throw new ServerError("invalid_argument", "the guide is bad");
    await new Promise((resolve) => setTimeout(resolve, 5));
    const mask = new Int32Array(VOCAB / 32);
    const allow = (id: number): void => {
      mask.fill(0);
      const next = id > Number(guide.text) ? (endIds[0] ?? 0) : id;
      mask[next >> 5] = 1 << (next & 31);
    };
    let pending: Promise<void> | undefined;
    let failure: Error | undefined;
    const session = {
      mask,
      get pending() {
        return pending;
      },
      get failure() {
        return failure;
      },
      accept: (token: number): void => {
        pending = new Promise((resolve) => setTimeout(resolve, token % 3)).then(() => {
          if (token === 29) failure = new Error("out of order");
          allow(token + 1);
          pending = undefined;
        });
      },
      close: (): void => {
        this.open_.delete(session);
      },
    };
    allow(20);
    this.open_.add(session);
    return session;
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

test("guided texts obey their masks, others go on, and guides are given back", async () => {
  const guides = new CountingGuides();
  const engine = engineOf({}, {}, { guides });
  const guided = (text: string, changes: Partial<GenerateRequest> = {}): Promise<Collected> =>
    collect(
      engine.generate(
        request([1], { guide: { type: "regex", text }, endIds: Int32Array.of(3), maxTokens: 20, ...changes }),
      ),
    );
  const plain = collect(engine.generate(request([1])));
  const [short, long, cut] = await Promise.all([guided("22"), guided("27"), guided("28", { maxTokens: 3 })]);
  assert.deepEqual([short.tokens, short.last?.finishReason], [[20, 21, 22], "end"]);
  assert.deepEqual([long.tokens, long.last?.finishReason], [[20, 21, 22, 23, 24, 25, 26, 27], "end"]);
  assert.deepEqual([cut.tokens, cut.last?.finishReason], [[20, 21, 22], "length"]);
  assert.equal((await plain).tokens.length, 6);
  await assert.rejects(guided("bad"), /the guide is bad/);
  await assert.rejects(guided("40"), /guided decoding failed: out of order/);
  await assert.rejects(guided("22", { endIds: new Int32Array(0) }), /needs an end id/);
  const controller = new AbortController();
  const cancelled = guided("22", { signal: controller.signal });
  controller.abort(); // while the guide is being prepared
  assert.equal((await cancelled).last?.finishReason, "cancelled");
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(guides.open_.size, 0);
  assert.equal(engine.stats().active, 0);
  await engine.close();
  assert.equal(guides.isClosed, true);
  await assert.rejects(
    collect(engineOf().generate(request([1], { guide: { type: "json", text: "" } }))),
    /tokenizer.json/,
  );
});

test("a post-processor changes the logits of the requests that name it; one that throws fails its own", async () => {
  const postProcessors = new Map([
    ["seven", (logits: Float32Array): void => void logits.fill(100, 7, 8)],
    [
      "late",
      (_: Float32Array, tokens: Int32Array, promptLength: number): void => {
        if (tokens.length - promptLength === 2) throw new Error("no more");
      },
    ],
  ]);
  const engine = engineOf({}, {}, { postProcessors });
  const run = (name: string, changes: Partial<GenerateRequest> = {}): Promise<Collected> =>
    collect(engine.generate(request([1], { logitsPostProcessor: name, ...changes })));
  const plain = run("");
  assert.deepEqual((await run("seven")).tokens, [7, 7, 7, 7, 7, 7]);
  await assert.rejects(run("late"), /logits post-processor 'late' failed: no more/);
  await assert.rejects(run("late", { beamWidth: 3, numReturnBeams: 3 }), /logits post-processor 'late' failed/);
  await assert.rejects(run("eight"), /no logits post-processor is named 'eight', known are: 'seven', 'late'/);
  assert.deepEqual((await plain).tokens, (await run("")).tokens);
  engine.checkIntegrity();
  assert.equal(engine.stats().kvBlocksUsed, 0);
  await engine.close();
  const always = engineOf(
    {},
    {},
    { postProcessors: new Map([["*", postProcessors.get("seven") ?? (() => undefined)]]) },
  );
  assert.deepEqual((await collect(always.generate(request([1], { maxTokens: 2 })))).tokens, [7, 7]);
  await always.close();
});

test("what would take too much memory or makes no sense is refused", async () => {
  const engine = engineOf();
  const cases: [Partial<GenerateRequest>, RegExp][] = [
    [{ topLogProbs: 65 }, /top log-probabilities is 65, expected 0 to 64/],
    [{ topPDecay: 1.5 }, /top_p_decay is 1.5, expected 0 to 1/],
    [{ topPMin: -1 }, /top_p_min is -1/],
    [{ minP: 2 }, /min_p is 2/],
    [{ noRepeatNgramSize: -1 }, /no_repeat_ngram_size is -1/],
    [{ lengthPenalty: Number.NaN }, /len_penalty/],
    [{ beamDiversityRate: Number.POSITIVE_INFINITY }, /beam_search_diversity_rate/],
    [{ guide: { type: "regex", text: "a".repeat(131_073) } }, /the guide has 131073 characters/],
  ];
  for (const [changes, message] of cases) {
    await assert.rejects(collect(engine.generate(request([1], changes))), message);
  }
  await engine.close();
  const wide = engineOf({ vocabSize: 3_000_000, maxPositions: 64 });
  await assert.rejects(
    collect(wide.generate(request([1], { generationLogits: true, maxTokens: 23 }))),
    /the logits asked for take 276000000 bytes \(23 rows of 3000000\), expected at most 268435456/,
  );
  const big = { generationLogits: true, maxTokens: 20 };
  const all = await Promise.allSettled([1, 2, 3].map((id) => collect(wide.generate(request([id], big)))));
  assert.deepEqual(
    all.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected"],
  );
  assert.match(String(all[2]?.status === "rejected" && all[2].reason), /480000000 bytes of logits, 240000000 more/);
  assert.equal((await collect(wide.generate(request([4], { ...big, maxTokens: 2 })))).tokens.length, 2);
  await wide.close();
});
