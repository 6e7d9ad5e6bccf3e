import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../../tests/fakes/hash-runner.ts";
import type { ServerError } from "../../core/server-error.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type BeamResult, type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { append, contiguousBlocks, TestSequence } from "../testing/sequences.ts";

const VOCAB = 12;
const NO_END = -1;

function engineOf(runner: HashRunnerOptions = {}, config: Partial<EngineConfig> = {}): LlmEngine {
  return new LlmEngine(new HashRunner({ vocabSize: VOCAB, ...runner }), { ...DEFAULT_ENGINE_CONFIG, ...config });
}

function request(changes: Partial<GenerateRequest>): GenerateRequest {
  const promptTokens = Int32Array.of(3, 1, 4, 1, 5, 9);
  return { ...NEUTRAL_REQUEST, promptTokens, maxTokens: 7, beamWidth: 3, numReturnBeams: 3, ...changes };
}

async function last(chunks: AsyncIterable<GeneratedChunk>): Promise<GeneratedChunk> {
  let chunk: GeneratedChunk | undefined;
  for await (chunk of chunks);
  assert.ok(chunk !== undefined, "a chunk");
  return chunk;
}

async function beamsOf(engine: LlmEngine, each: GenerateRequest): Promise<readonly BeamResult[]> {
  return (await last(engine.generate(each))).beams ?? [];
}

/** Log-probabilities of what follows a text, in double precision, from a model of its own. */
class Oracle {
  readonly #runner = new HashRunner({ vocabSize: VOCAB, numBlocks: 64 });
  readonly #known = new Map<string, number[]>();

  async after(tokens: readonly number[]): Promise<number[]> {
    const known = this.#known.get(tokens.join());
    if (known !== undefined) return known;
    const [row] = await append(this.#runner, [{ sequence: new TestSequence(contiguousBlocks(0, 20)), tokens }]);
    const scores = [...(row ?? [])];
    const mass = Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0));
    const result = scores.map((score) => score - mass);
    this.#known.set(tokens.join(), result);
    return result;
  }
}

interface Beam {
  readonly tokens: readonly number[];
  readonly sum: number;
}

interface Candidate extends Beam {
  readonly token: number;
  /** Sort key: its sum plus its beam's bonus. */
  readonly rank: number;
}

/** Every continuation of every beam, best first. */
async function continuations(oracle: Oracle, live: readonly Beam[], each: GenerateRequest): Promise<Candidate[]> {
  const all: Candidate[] = [];
  for (const [i, { tokens, sum }] of live.entries()) {
    const next = await oracle.after([...each.promptTokens, ...tokens]);
    for (const [token, logProb] of next.entries()) {
      const rank = sum + logProb + each.beamDiversityRate * i;
      all.push({ tokens: [...tokens, token], token, sum: sum + logProb, rank });
    }
  }
  return all.sort((a, b) => b.rank - a.rank);
}

/** Beam search by the book: whole texts in plain lists. */
async function reference(each: GenerateRequest): Promise<Beam[]> {
  const { beamWidth: width, maxTokens, lengthPenalty } = each;
  const oracle = new Oracle();
  const score = (sum: number, length: number): number => sum / length ** lengthPenalty;
  let live: Beam[] = [{ tokens: [], sum: 0 }];
  let done: (Beam & { score: number })[] = [];
  const add = (beams: readonly Beam[], length: number): void => {
    done.push(...beams.map((beam) => ({ ...beam, score: score(beam.sum, length) })));
    done = done.sort((a, b) => b.score - a.score).slice(0, width);
  };
  for (let length = 1; length <= maxTokens; length++) {
    const all = await continuations(oracle, live, each);
    const ended = all.slice(0, width).filter(({ token }) => token === each.endIds[0]);
    const next = all.slice(0, 2 * width).filter(({ token }) => token !== each.endIds[0]);
    // An end behind the last beam that goes on came too late.
    const lastLive = next[width - 1]?.rank ?? Number.NEGATIVE_INFINITY;
    live = next.slice(0, width);
    add(
      ended.filter(({ rank }) => rank >= lastLive).map(({ tokens, sum }) => ({ tokens: tokens.slice(0, -1), sum })),
      length,
    );
    const reach = each.earlyStopping === 2 && lengthPenalty > 0 ? maxTokens : length;
    const isFull = done.length === width;
    if (isFull && each.earlyStopping === 1) return done;
    if (isFull && (done.at(-1)?.score ?? 0) >= score(all[0]?.sum ?? 0, reach)) return done;
  }
  add(live, maxTokens);
  return done;
}

function assertBeams(actual: readonly BeamResult[], expected: readonly Beam[], what: string): void {
  assert.deepEqual(
    actual.map(({ tokenIds }) => [...tokenIds]),
    expected.map(({ tokens }) => tokens),
    what,
  );
  for (const [i, { sum }] of expected.entries()) {
    assert.equal(Math.abs((actual[i]?.cumLogProb ?? 0) - sum) < 1e-5, true, `${what}: beam ${i}: ${sum}`);
  }
}

const CASES: Partial<GenerateRequest>[] = [];
for (const earlyStopping of [0, 1, 2] as const) {
  for (const lengthPenalty of [0, 1, -0.5, 2.5]) {
    for (const [beamWidth, end] of [
      [2, 7],
      [3, 2],
      [4, 0],
      [5, NO_END],
    ] as const) {
      const endIds = Int32Array.of(...(end === NO_END ? [] : [end]));
      CASES.push({ earlyStopping, lengthPenalty, beamWidth, numReturnBeams: beamWidth, endIds });
    }
  }
}
for (let i = 0; i < 48; i++) {
  const lengthPenalty = i % 2 === 0 ? 1 : -1;
  CASES.push({ earlyStopping: 2, lengthPenalty, beamWidth: 2, numReturnBeams: 2, endIds: Int32Array.of(i % VOCAB) });
}
CASES.push({ beamDiversityRate: 0.5, endIds: Int32Array.of(7) }, { beamDiversityRate: -2, endIds: Int32Array.of(2) });

test("a beam search finds what an exhaustive one over whole texts finds, in every stopping mode", async () => {
  const engine = engineOf();
  const reasons = new Set<string>();
  for (const [i, changes] of [...CASES, ...CASES, ...CASES].entries()) {
    const promptTokens = Int32Array.of(1, 2 + (i % 5), i % 11, i % 7);
    const each = request({ ...changes, promptTokens, maxTokens: 3 + (i % 14) });
    const chunk = await last(engine.generate(each));
    assertBeams(chunk.beams ?? [], await reference(each), JSON.stringify(changes));
    reasons.add(chunk.finishReason ?? "none");
    engine.checkIntegrity();
  }
  assert.deepEqual([...reasons].sort(), ["end", "length"]);
  assert.equal(engine.stats().kvBlocksUsed, 0);
  await engine.close();
});

test("beam searches among others give what they give alone, with any budget and when blocks run short", async () => {
  const searches = Array.from({ length: 10 }, (_, i) =>
    request({
      promptTokens: Int32Array.from({ length: 1 + i * 2 }, (_, j) => (i + j * 3) % VOCAB),
      beamWidth: 2 + (i % 3),
      numReturnBeams: 2 + (i % 3),
      maxTokens: 4 + i,
      endIds: Int32Array.of(i),
      repetitionPenalty: i % 2 === 0 ? 1 : 1.3,
      lengthPenalty: 1,
    }),
  );
  const others = Array.from({ length: 6 }, (_, i) =>
    request({ promptTokens: Int32Array.of(i), beamWidth: 1, numReturnBeams: 1, maxTokens: 20 }),
  );
  const alone: (readonly BeamResult[])[] = [];
  for (const each of searches) {
    const engine = engineOf({}, { prefixReuse: false });
    alone.push(await beamsOf(engine, each));
    await engine.close();
  }
  let preemptions = 0;
  for (const config of [
    {},
    { maxBatchTokens: 5 },
    { chunkedPrefill: false },
    { policy: "max_utilization" as const },
    { policy: "max_utilization" as const, prefixReuse: false, maxBatchTokens: 7 },
    { maxSequences: 4, policy: "max_utilization" as const },
  ]) {
    for (const numBlocks of [33, 40, 64]) {
      const engine = engineOf({ numBlocks }, config);
      const plain = others.map((each) => last(engine.generate(each)));
      const together = await Promise.all(searches.map((each) => beamsOf(engine, each)));
      await Promise.all(plain);
      for (const [i, beams] of together.entries()) {
        assertBeams(
          beams,
          (alone[i] ?? []).map(({ tokenIds, cumLogProb }) => ({ tokens: [...tokenIds], sum: cumLogProb })),
          `${JSON.stringify({ ...config, numBlocks })}, search ${i}`,
        );
      }
      engine.checkIntegrity();
      assert.equal(engine.stats().kvBlocksUsed, 0);
      preemptions += engine.stats().preemptions;
      await engine.close();
    }
  }
  assert.equal(preemptions > 0, true);
});

test("a beam search tells log-probabilities and logits of its tokens, and ends beams at stop words", async () => {
  const engine = engineOf();
  const free = await beamsOf(engine, request({ generationLogits: true }));
  for (const { tokenIds, logProbs, cumLogProb, logits } of free) {
    assert.equal(tokenIds.length, 7);
    assert.equal(logits.length, 7 * VOCAB);
    assert.equal(Math.abs(logProbs.reduce((sum, value) => sum + value, 0) - cumLogProb) < 1e-4, true);
    const oracle = await new Oracle().after([3, 1, 4, 1, 5, 9, ...tokenIds.subarray(0, 6)]);
    assert.equal(Math.abs((oracle[tokenIds[6] ?? 0] ?? 0) - (logProbs[6] ?? 0)) < 1e-5, true);
    const row = logits.subarray(6 * VOCAB);
    assert.equal(row.indexOf(Math.max(...row)), oracle.indexOf(Math.max(...oracle)));
  }
  const best = free[0]?.tokenIds ?? new Int32Array(0);
  const word = best.slice(1, 3);
  const stopped = await last(engine.generate(request({ stopWords: [word] })));
  assert.equal(stopped.finishReason, "stop");
  assert.deepEqual([...(stopped.beams?.[0]?.tokenIds ?? [])].slice(-2), [...word]);
  await engine.close();
});

test("a beam search can be cancelled at any step and leaves no block behind", async () => {
  for (let step = 0; step < 6; step++) {
    const controller = new AbortController();
    const engine = engineOf({ onStep: (_, at) => at === step && controller.abort() });
    const chunk = await last(engine.generate(request({ maxTokens: 50, signal: controller.signal })));
    assert.equal(chunk.finishReason, "cancelled");
    engine.checkIntegrity();
    assert.deepEqual([engine.stats().kvBlocksUsed, engine.stats().active], [0, 0]);
    await engine.close();
  }
});

test("a beam search that can never fit is refused with its size", async () => {
  const engine = engineOf({ numBlocks: 8 }, { maxSequences: 4 });
  const refused = (changes: Partial<GenerateRequest>, message: RegExp): Promise<void> =>
    assert.rejects(last(engine.generate(request(changes))), (error: ServerError) => message.test(error.message));
  await refused({ maxTokens: 20 }, /beam_width 3 with up to 26 tokens needs 3 sequences and 21 cache blocks/);
  await refused({ beamWidth: 5, maxTokens: 1 }, /the engine has 4 and 8/);
  await refused({ beamWidth: 65 }, /beam_width is 65, expected 1 to 64/);
  await refused({ numReturnBeams: 4 }, /number of beams returned is 4, expected 1 to 3/);
  await refused({ guide: { type: "json", text: "" } }, /not supported together with beam search/);
  await engine.close();
});
