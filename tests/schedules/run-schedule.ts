/**
 * Runs one random load through the real planner, cache, sampler and engine over a model that is a hash of what its cache
 * holds, on a clock that moves with the steps. Rejects when an output differs, a block is lost or somebody waits for ever.
 */
import assert from "node:assert/strict";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import { HashRunner } from "../fakes/hash-runner.ts";
import { expectedOutput, type Output, OutputSink } from "./expected-output.ts";
import type { Arrival, Schedule } from "./schedule.ts";
import { WaitWatch } from "./wait-watch.ts";

export interface ScheduleFigures {
  requests: number;
  /** That the engine could never have served: more beams than fit. */
  refused: number;
  cancelled: number;
  tokens: number;
  steps: number;
  preemptions: number;
  reusedBlocks: number;
  draftTokens: number;
  acceptedDraftTokens: number;
  /** Most steps in a row in which the first in line got nothing. */
  longestWaitSteps: number;
}

export const NO_FIGURES: Readonly<ScheduleFigures> = Object.freeze({
  requests: 0,
  refused: 0,
  cancelled: 0,
  tokens: 0,
  steps: 0,
  preemptions: 0,
  reusedBlocks: 0,
  draftTokens: 0,
  acceptedDraftTokens: 0,
  longestWaitSteps: 0,
});

/** Adds what came of one load. @throws when it broke a rule, naming the seed */
export async function runSchedule(schedule: Schedule, figures: ScheduleFigures): Promise<void> {
  try {
    await new ScheduleRun(schedule, figures).run();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the load of seed ${schedule.seed}: ${reason}`, { cause });
  }
}

interface Lane {
  readonly arrival: Arrival;
  readonly request: GenerateRequest;
  readonly sink: OutputSink;
  sequence: Sequence | undefined;
}

class ScheduleRun {
  readonly #schedule: Schedule;
  readonly #figures: ScheduleFigures;
  readonly #engine: LlmEngine;
  readonly #drafter: ModelDrafter | undefined;
  readonly #lanes: readonly Lane[];
  readonly #watch = new WaitWatch();
  #numSubmitted = 0;
  #numLive = 0;
  #step = 0;
  #nowMs = 1000;
  #failure: unknown;
  #onIdle: () => void = () => undefined;

  constructor(schedule: Schedule, figures: ScheduleFigures) {
    this.#schedule = schedule;
    this.#figures = figures;
    const { shape, config } = schedule;
    const runner = new HashRunner({ ...shape, onStep: () => this.#onStep() });
    this.#drafter = drafterOf(schedule);
    const services = { drafter: this.#drafter, nowNs: () => this.#nowMs * 1e6 };
    this.#engine = new LlmEngine(runner, config, undefined, services);
    const { maxSequenceLength } = this.#engine.limits;
    this.#lanes = schedule.arrivals.map((arrival) => ({
      arrival,
      // A length that does not depend on how many blocks there are, so that an engine with more gives the same.
      request: {
        ...arrival.request,
        maxTokens: Math.min(arrival.request.maxTokens, maxSequenceLength - arrival.request.promptTokens.length),
      },
      sink: new OutputSink(() => this.#onOver()),
      sequence: undefined,
    }));
  }

  async run(): Promise<void> {
    while (this.#numSubmitted < this.#lanes.length || this.#numLive > 0) {
      if (this.#numLive === 0) this.#submitNext();
      if (this.#numLive > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
      if (this.#failure !== undefined) throw this.#failure;
    }
    this.#checkBlocks();
    for (const lane of this.#lanes) await this.#check(lane);
    this.#count();
    await this.#engine.close();
  }

  /** Called while a step runs: a throw would only fail that step, so it is kept. */
  #onStep(): void {
    try {
      this.#step += 1;
      this.#nowMs += this.#schedule.stepMs[this.#step % this.#schedule.stepMs.length] ?? 0;
      if (this.#step % 5 === 0) this.#engine.checkIntegrity();
      const live = this.#lanes.filter(({ sequence, sink }) => sequence !== undefined && !sink.isOver);
      this.#watch.look(live.flatMap(({ sequence }) => (sequence === undefined ? [] : [sequence])));
      for (const { arrival, sequence } of live) {
        if (arrival.cancelStep <= this.#step && sequence !== undefined) this.#engine.cancel(sequence);
      }
      while ((this.#lanes[this.#numSubmitted]?.arrival.step ?? Number.POSITIVE_INFINITY) <= this.#step)
        this.#submitNext();
    } catch (error) {
      this.#failure ??= error;
    }
  }

  #submitNext(): void {
    const lane = this.#lanes[this.#numSubmitted];
    this.#numSubmitted += 1;
    if (lane === undefined) return;
    this.#numLive += 1;
    try {
      lane.sequence = this.#engine.submit(lane.request, lane.sink);
    } catch (error) {
      lane.sink.failed(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #onOver(): void {
    this.#numLive -= 1;
    if (this.#numLive === 0) this.#onIdle();
  }

  #checkBlocks(): void {
    this.#engine.checkIntegrity();
    const { kvBlocksFree, kvBlocksMax, active } = this.#engine.stats();
    assert.equal(kvBlocksFree, kvBlocksMax, "blocks are still held");
    assert.equal(active, 0, "requests are still in the engine");
    const { numFreeBlocks } = this.#drafter ?? { numFreeBlocks: this.#schedule.shape.numBlocks };
    assert.equal(numFreeBlocks, this.#schedule.shape.numBlocks, "the draft model still holds blocks");
  }

  async #check({ request, sink, sequence }: Lane): Promise<void> {
    if (sink.error !== undefined) {
      assert.equal(sequence, undefined, `a request failed on the way: ${sink.error.message}`);
      assert.match(sink.error.message, /^beam_width/);
      return;
    }
    const expected = await this.#expected(request);
    if (sink.reason === "cancelled") {
      assert.deepEqual(sink.tokens, expected.tokens.slice(0, sink.tokens.length));
    } else {
      const { tokens, logProbs, beamResults, reason } = sink;
      const { tokens: wanted, logProbs: wantedProbs } = expected;
      assert.deepEqual(
        { reason, tokens, logProbs },
        { reason: expected.reason, tokens: wanted, logProbs: wantedProbs },
      );
      assert.deepEqual(beamResults, expected.beamResults);
    }
  }

  async #expected(request: GenerateRequest): Promise<Output> {
    const { shape } = this.#schedule;
    if (request.beamWidth === 1) return expectedOutput(request, shape, this.#engine.limits.maxSequenceLength);
    const runner = new HashRunner({ ...shape, numBlocks: 400, numHostBlocks: 0 });
    const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, prefixReuse: false });
    const sink = await new Promise<OutputSink>((resolve) => {
      const own: OutputSink = new OutputSink(() => resolve(own));
      engine.submit(request, own);
    });
    await engine.close();
    return sink;
  }

  #count(): void {
    const { preemptions, kvBlocksReused, draftTokens, acceptedDraftTokens } = this.#engine.stats();
    const figures = this.#figures;
    figures.requests += this.#lanes.length;
    figures.refused += this.#lanes.filter(({ sink }) => sink.error !== undefined).length;
    figures.cancelled += this.#lanes.filter(({ sink }) => sink.reason === "cancelled").length;
    figures.tokens += this.#lanes.reduce((sum, { sink }) => sum + sink.tokens.length, 0);
    figures.steps += this.#step;
    figures.preemptions += preemptions;
    figures.reusedBlocks += kvBlocksReused;
    figures.draftTokens += draftTokens;
    figures.acceptedDraftTokens += acceptedDraftTokens;
    figures.longestWaitSteps = Math.max(figures.longestWaitSteps, this.#watch.longestWaitSteps);
  }
}

function drafterOf({ draftModel, shape, config }: Schedule): ModelDrafter | undefined {
  if (draftModel === "none") return undefined;
  const { window: _, ...rest } = shape;
  const runner = new HashRunner({ ...rest, numHostBlocks: 0, isOther: draftModel === "other" });
  return new ModelDrafter(runner, config.speculation, config.maxBatchTokens);
}
