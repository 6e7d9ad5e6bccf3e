/**
 * Scheduling order and held blocks: priorities, the host KV cache, windows. Tests of planners alone, and of engines
 * whose model is a hash.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../../tests/fakes/hash-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { PRIORITY_SPAN_MS } from "../priority-order.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence } from "../request/sequence.ts";
import { uniformAt } from "../sample/random.ts";
import type { PlannerConfig } from "./planner-config.ts";
import type { StepPlan } from "./step-plan.ts";
import { StepPlanner } from "./step-planner.ts";

const IGNORE = (): void => undefined;
const SINK = { started: IGNORE, token: IGNORE, extra: IGNORE, beams: IGNORE, finished: IGNORE, failed: IGNORE };
const CONFIG: PlannerConfig = {
  numBlocks: 16,
  numHostBlocks: 0,
  blockSize: 4,
  window: undefined,
  maxSequences: 8,
  maxBatchTokens: 16,
  chunkedPrefill: true,
  prefixReuse: false,
  policy: "guaranteed_no_evict",
};

interface Arrival {
  readonly length: number;
  readonly maxTokens: number;
  readonly priority?: number;
  readonly arrivalMs?: number;
}

let numSequences = 0;

function sequence({ length, maxTokens, priority = 0.5, arrivalMs = 0 }: Arrival, maxSequenceLength = 64): Sequence {
  numSequences += 1;
  const promptTokens = Int32Array.from({ length }, (_, i) => (i === 0 ? numSequences : i));
  const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens, priority };
  const created = new Sequence(request, SINK, { blockSize: 4, vocabSize: 64, maxSequenceLength });
  created.arrivalNs = arrivalMs * 1e6;
  return created;
}

/** Every complete sequence gets one token, or ends at its limit. */
function carryOut(planner: StepPlanner, plan: StepPlan): Sequence[] {
  const ended: Sequence[] = [];
  for (const [i, each] of [...plan.sequences].entries()) {
    planner.computed(each, plan.queryLengths[i] ?? 0);
    if (each.numComputed < each.numTokens) continue;
    each.append(7);
    if (each.numTokens < each.maxLength) continue;
    planner.remove(each);
    ended.push(each);
  }
  planner.checkIntegrity();
  return ended;
}

test("plan() admits by priority first and arrival second", () => {
  const planner = new StepPlanner({ ...CONFIG, maxSequences: 3 });
  const [low, usual, high, later] = [
    sequence({ length: 1, maxTokens: 2, priority: 0 }),
    sequence({ length: 1, maxTokens: 2, arrivalMs: 1 }),
    sequence({ length: 1, maxTokens: 2, priority: 1, arrivalMs: 2 }),
    sequence({ length: 1, maxTokens: 2, arrivalMs: 3 }),
  ];
  for (const each of [low, usual, high, later]) planner.add(each);
  assert.deepEqual(planner.plan()?.sequences, [high, usual, later]);
});

test("plan() lets nobody overtake by priority who came later than the span", () => {
  const planner = new StepPlanner({ ...CONFIG, maxSequences: 1 });
  const low = sequence({ length: 1, maxTokens: 2, priority: 0 });
  const high = sequence({ length: 1, maxTokens: 2, priority: 1, arrivalMs: PRIORITY_SPAN_MS + 1 });
  planner.add(high);
  planner.add(low);
  assert.deepEqual(planner.plan()?.sequences, [low]);
});

test("plan() preempts the lowest priority first, and serves the highest first when the budget is short", () => {
  const planner = new StepPlanner({ ...CONFIG, policy: "max_utilization", numBlocks: 4, maxBatchTokens: 8 });
  const low = sequence({ length: 4, maxTokens: 8, priority: 0 });
  planner.add(low);
  carryOut(planner, planner.plan() ?? assert.fail("nothing planned"));
  const high = sequence({ length: 7, maxTokens: 8, priority: 1, arrivalMs: 5 });
  planner.add(high);
  assert.deepEqual(planner.plan()?.sequences, [low, high]);
  for (let i = 0; i < 3; i++) carryOut(planner, planner.plan() ?? assert.fail("nothing planned"));
  assert.deepEqual(planner.plan()?.sequences, [high]);
  assert.equal(planner.numPreemptions, 1);
});

for (const policy of ["guaranteed_no_evict", "max_utilization"] as const) {
  for (const seed of [21, 22, 23]) {
    test(`no request starves behind a flood of higher priority (${policy}, seed ${seed})`, () => {
      let draws = 0;
      const draw = (below: number): number => Math.floor(uniformAt(seed, 5, draws++) * below);
      const planner = new StepPlanner({ ...CONFIG, policy, maxSequences: 4 });
      const stepMs = 100;
      const waitMs = new Map<Sequence, number>();
      const low = sequence({ length: 30, maxTokens: 20, priority: 0, arrivalMs: 3000 });
      for (let nowMs = 0; !waitMs.has(low) && nowMs < 10 * PRIORITY_SPAN_MS; nowMs += stepMs) {
        if (nowMs === 3000) planner.add(low);
        // More work than there is room for, all of it more urgent.
        while (planner.numWaiting < 12) {
          planner.add(sequence({ length: 1 + draw(20), maxTokens: 1 + draw(20), priority: 1, arrivalMs: nowMs }));
        }
        const plan = planner.plan(nowMs) ?? assert.fail("nothing planned");
        for (const each of carryOut(planner, plan)) waitMs.set(each, nowMs - each.arrivalNs / 1e6);
      }
      // Until the span is over, then those before it, then its own steps.
      assert.ok((waitMs.get(low) ?? Number.POSITIVE_INFINITY) < 2 * PRIORITY_SPAN_MS, `${waitMs.get(low)} ms`);
      assert.ok(waitMs.size > 50);
    });
  }
}

test("plan() gives back what lies before the window and counts only the rest", () => {
  const window = { ...CONFIG, window: 6, maxBatchTokens: 8, numBlocks: 10 };
  const planner = new StepPlanner(window);
  // Each needs at most 6 - 1 + 8 tokens at a time, in 5 blocks: two fit, of 64 tokens each.
  for (let i = 0; i < 3; i++) planner.add(sequence({ length: 40, maxTokens: 24 }));
  let most = 0;
  let steps = 0;
  while (planner.numRunning + planner.numWaiting > 0) {
    carryOut(planner, planner.plan() ?? assert.fail("nothing planned"));
    most = Math.max(most, planner.numRunning);
    steps += 1;
    assert.ok(steps < 1000);
  }
  assert.equal(most, 2);
  assert.equal(planner.numPreemptions, 0);
  assert.equal(planner.numFreeBlocks, 10);
});

for (const policy of ["guaranteed_no_evict", "max_utilization"] as const) {
  for (const [seed, changes] of [
    [31, { window: 3 }],
    [32, { window: 5, prefixReuse: true }],
    [33, { window: 17, prefixReuse: true }],
    [34, { window: 8, prefixReuse: true, maxBatchTokens: 3 }],
    [35, { numHostBlocks: 9, prefixReuse: true }],
    [36, { numHostBlocks: 50, prefixReuse: true, chunkedPrefill: false }],
  ] as const) {
    test(`random loads of mixed priorities end without losing a block (${policy}, seed ${seed})`, () => {
      let draws = 0;
      const draw = (below: number): number => Math.floor(uniformAt(seed, 3, draws++) * below);
      const planner = new StepPlanner({ ...CONFIG, policy, ...changes });
      let left = 150;
      let steps = 0;
      while (left > 0 || planner.numWaiting + planner.numRunning > 0) {
        if (left > 0 && draw(2) === 0) {
          const added = {
            length: 1 + draw(40),
            maxTokens: 1 + draw(30),
            priority: draw(5) / 4,
            arrivalMs: 1000 * steps,
          };
          numSequences = draw(3);
          planner.add(sequence(added));
          left -= 1;
        }
        const plan = planner.plan(++steps);
        if (plan !== undefined) carryOut(planner, plan);
        for (const each of draw(20) === 0 ? [...planner.sequences()].filter(() => draw(4) === 0) : [])
          planner.remove(each);
        planner.checkIntegrity();
        assert.ok(steps < 20_000);
      }
      assert.equal(planner.numFreeBlocks, 16);
      assert.equal(policy === "guaranteed_no_evict" ? planner.numPreemptions : 0, 0);
    });
  }
}

interface Run {
  readonly tokens: number[][];
  readonly stats: { readonly offloaded: number; readonly onboarded: number; readonly reused: number };
}

async function run(
  requests: readonly GenerateRequest[],
  runner: HashRunnerOptions,
  config: Partial<EngineConfig> = {},
): Promise<Run> {
  const engine = new LlmEngine(new HashRunner(runner), { ...DEFAULT_ENGINE_CONFIG, maxBatchTokens: 16, ...config });
  const collect = async (request: GenerateRequest): Promise<number[]> => {
    const tokens: number[] = [];
    for await (const { tokenIds } of engine.generate(request)) tokens.push(...tokenIds);
    return tokens;
  };
  const tokens = await Promise.all(requests.map(collect));
  engine.checkIntegrity();
  const { kvBlocksOffloaded: offloaded, kvBlocksOnboarded: onboarded, kvBlocksReused: reused } = engine.stats();
  await engine.close();
  return { tokens, stats: { offloaded, onboarded, reused } };
}

/** Prompts that begin alike in threes, so that prefixes come back after others have been there. */
const REQUESTS = Array.from({ length: 60 }, (_, i): GenerateRequest => {
  const promptTokens = Int32Array.from({ length: 10 + ((i * 7) % 23) }, (_, j) => (j < 9 ? (i * 5) % 20 : j + i) % 64);
  return {
    ...NEUTRAL_REQUEST,
    promptTokens,
    maxTokens: 3 + (i % 9),
    beamWidth: i % 10 === 9 ? 2 : 1,
    priority: (i % 3) / 2,
  };
});

test("the host KV cache changes nothing but what is computed", async () => {
  const expected = await run(REQUESTS, { numBlocks: 512 }, { prefixReuse: false });
  for (const policy of ["guaranteed_no_evict", "max_utilization"] as const) {
    const config = { policy, maxSequences: 4 };
    const without = await run(REQUESTS, { numBlocks: 20 }, config);
    const some = await run(REQUESTS, { numBlocks: 20, numHostBlocks: 10 }, config);
    const plenty = await run(REQUESTS, { numBlocks: 20, numHostBlocks: 300 }, config);
    const drafts = { ...config, speculation: { maxDraftTokens: 5, ngramSize: 2 } };
    const drafting = await run(REQUESTS, { numBlocks: 20, numHostBlocks: 30 }, drafts);
    for (const each of [without, some, plenty, drafting]) assert.deepEqual(each.tokens, expected.tokens);
    assert.deepEqual([without.stats.offloaded, without.stats.onboarded], [0, 0]);
    assert.ok(some.stats.offloaded > 0 && plenty.stats.onboarded > 0);
    assert.ok(plenty.stats.reused > without.stats.reused, `${plenty.stats.reused} ${without.stats.reused}`);
  }
});

test("a windowed model gives the same tokens in little memory, also beyond what the cache holds at once", async () => {
  for (const window of [3, 10]) {
    const expected = await run(REQUESTS, { numBlocks: 2048, window }, { prefixReuse: false });
    for (const policy of ["guaranteed_no_evict", "max_utilization"] as const) {
      const drafts = { speculation: { maxDraftTokens: 5, ngramSize: 2 } };
      for (const changes of [{}, { prefixReuse: false }, { maxBatchTokens: 5 }, drafts]) {
        const { tokens } = await run(REQUESTS, { numBlocks: 24, window }, { policy, ...changes });
        assert.deepEqual(tokens, expected.tokens);
      }
    }
    const long = [{ ...NEUTRAL_REQUEST, promptTokens: new Int32Array(70).fill(3), maxTokens: 150 }];
    const { tokens } = await run(long, { numBlocks: 12, window });
    assert.equal(tokens[0]?.length, 150);
    assert.deepEqual(tokens, (await run(long, { numBlocks: 100, window })).tokens);
  }
});
