/**
 * The step loop: plan, run, sample, hand out. Requests join and leave between steps. It knows tokens only: no text, no
 * tensors, no protocol, and of the device only that it runs steps.
 */
import { createHash } from "node:crypto";
import { ServerError } from "../core/server-error.ts";
import { checkRequest, type RequestLimits } from "./check-request.ts";
import { ChunkQueue } from "./chunk-queue.ts";
import { type EngineStats, ZERO_STATS } from "./engine-stats.ts";
import type { FinishReason, GeneratedChunk, GenerateRequest, Generator } from "./generate.ts";
import { endsWith } from "./logit-rules.ts";
import { Sampler } from "./sampler.ts";
import { Sequence, type SequenceSink } from "./sequence.ts";
import { StepBatch } from "./step-batch.ts";
import { type CapacityPolicy, type StepPlan, StepPlanner } from "./step-planner.ts";
import type { StepRunner } from "./step-runner.ts";

export interface EngineConfig {
  /** Sequences of one step. */
  readonly maxSequences: number;
  /** Tokens of one step. */
  readonly maxBatchTokens: number;
  readonly chunkedPrefill: boolean;
  readonly prefixReuse: boolean;
  readonly policy: CapacityPolicy;
  /** Requests that may wait; 0 = any number. */
  readonly maxWaiting: number;
}

export const DEFAULT_ENGINE_CONFIG: EngineConfig = Object.freeze({
  maxSequences: 64,
  maxBatchTokens: 512,
  chunkedPrefill: true,
  prefixReuse: true,
  policy: "guaranteed_no_evict",
  maxWaiting: 0,
});

/** Asking for the resident memory costs some microseconds: not worth it every step. */
const STEPS_PER_MEMORY_LOOK = 64;

/** Called by the loop with everything of a step handed to the sinks, before the next step runs. Must not throw. */
export type TurnListener = () => void;

export class LlmEngine implements Generator {
  readonly limits: RequestLimits;
  readonly #runner: StepRunner;
  readonly #config: EngineConfig;
  readonly #planner: StepPlanner;
  readonly #batch: StepBatch;
  readonly #sampler: Sampler;
  readonly #stats: EngineStats;
  readonly #onTurn: TurnListener;
  #loop: Promise<void> = Promise.resolve();
  #isRunning = false;
  /** Why the engine takes no more requests. */
  #closed: ServerError | undefined;
  #hasCancelled = false;

  constructor(runner: StepRunner, config: EngineConfig, onTurn: TurnListener = () => undefined) {
    const { blockSize, numBlocks, vocabSize, hiddenSize } = runner;
    this.#runner = runner;
    this.#config = config;
    this.#planner = new StepPlanner({ ...config, blockSize, numBlocks });
    this.#batch = new StepBatch(runner);
    this.#sampler = new Sampler(vocabSize);
    this.#stats = {
      ...ZERO_STATS,
      maxRequests: config.maxSequences,
      kvBlocksMax: numBlocks,
      tokensPerBlock: blockSize,
    };
    this.#stats.cpuBytes = process.memoryUsage.rss();
    this.#onTurn = onTurn;
    this.limits = { vocabSize, hiddenSize, maxSequenceLength: Math.min(runner.maxPositions, numBlocks * blockSize) };
  }

  generate(request: GenerateRequest): AsyncIterable<GeneratedChunk> {
    const queue = new ChunkQueue(request.logProbs, request.signal);
    try {
      const sequence = this.submit(request, queue);
      queue.onCancel(() => this.cancel(sequence));
      if (request.signal?.aborted === true) this.cancel(sequence);
    } catch (error) {
      queue.failed(ServerError.from(error));
    }
    return queue;
  }

  /** Takes a request in; its results go to `sink` from the next step on. @throws ServerError when it is refused */
  submit(request: GenerateRequest, sink: SequenceSink): Sequence {
    if (this.#closed !== undefined) throw this.#closed;
    checkRequest(request, this.limits);
    const { maxWaiting } = this.#config;
    if (maxWaiting > 0 && this.#planner.numWaiting >= maxWaiting) {
      throw new ServerError(
        "unavailable",
        `Maximum queue size of ${maxWaiting} has been reached, please try again later`,
        {
          reason: "REJECTED",
        },
      );
    }
    const limits = { ...this.limits, blockSize: this.#runner.blockSize };
    const sequence = new Sequence(withTableSalt(request), sink, limits);
    sequence.arrivalNs = nowNs();
    this.#planner.add(sequence);
    this.#wake();
    return sequence;
  }

  /** Ends a sequence by the end of the step in flight; its blocks are free then. */
  cancel(sequence: Sequence): void {
    sequence.cancelled = true;
    this.#hasCancelled = true;
    this.#wake();
  }

  stats(): Readonly<EngineStats> {
    const stats = this.#stats;
    const planner = this.#planner;
    stats.active = planner.numRunning + planner.numWaiting;
    stats.waiting = Math.max(0, stats.active - stats.scheduled);
    stats.paused = planner.numPaused;
    stats.preemptions = planner.numPreemptions;
    stats.kvBlocksFree = planner.numFreeBlocks;
    stats.kvBlocksUsed = stats.kvBlocksMax - stats.kvBlocksFree;
    stats.kvBlocksReused = planner.numReusedBlocks;
    stats.kvBlocksNew = planner.numNewBlocks;
    return stats;
  }

  /** @throws when cache blocks are lost or held twice */
  checkIntegrity(): void {
    this.#planner.checkIntegrity();
  }

  /** Fails what is still in the engine, waits for the step in flight and frees the runner. */
  async close(): Promise<void> {
    this.#closed ??= new ServerError("unavailable", "the engine is closed");
    await this.#loop;
    this.#failAll(this.#closed);
    await this.#runner.close();
  }

  #wake(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#loop = this.#run();
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        // One turn of the event loop per step: new requests and cancellations get in even when steps take no time.
        await new Promise<void>((resolve) => setImmediate(resolve));
        if (this.#closed !== undefined) return;
        this.#dropCancelled();
        const plan = this.#planner.plan();
        if (plan === undefined) {
          this.#goIdle();
          return;
        }
        await this.#step(plan);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isRunning = false; // in the same turn as the last look at the queue, so that no wake-up is lost
    }
  }

  async #step(plan: StepPlan): Promise<void> {
    const input = this.#batch.fill(plan);
    const start = nowNs();
    for (const sequence of plan.admitted) {
      sequence.firstScheduledNs = start;
      sequence.sink.started();
    }
    this.#countStep(plan);
    this.#onTurn();
    const logits = await this.#runner.run(input);
    this.#applyLogits(plan, logits, nowNs());
    this.#stats.lastStepMs = (nowNs() - start) / 1e6;
    this.#stats.totalStepMs += this.#stats.lastStepMs;
  }

  #applyLogits(plan: StepPlan, logits: Float32Array, now: number): void {
    const { vocabSize } = this.#runner;
    let row = 0;
    for (let i = 0; i < plan.sequences.length; i++) {
      const sequence = plan.sequences[i];
      if (sequence === undefined) break;
      this.#planner.computed(sequence, plan.queryLengths[i] ?? 0);
      if (sequence.numComputed < sequence.numTokens) continue; // a chunk in the middle of a prompt
      const scores = logits.subarray(row * vocabSize, (row + 1) * vocabSize);
      row += 1;
      if (!sequence.cancelled) this.#takeToken(sequence, scores, now);
    }
  }

  #takeToken(sequence: Sequence, row: Float32Array, now: number): void {
    const token = this.#sampler.sample(row, sequence);
    if (token < 0) {
      this.#planner.remove(sequence);
      sequence.sink.failed(
        new ServerError(
          "internal",
          `no token can be chosen after ${sequence.numTokens} tokens: every logit is NaN or forbidden`,
        ),
      );
      return;
    }
    if (sequence.firstTokenNs === 0) sequence.firstTokenNs = now;
    sequence.lastTokenNs = now;
    if (sequence.request.endIds.includes(token)) {
      this.#finish(sequence, "end");
      return;
    }
    const logProb = sequence.request.logProbs ? this.#sampler.logProb(row, token) : 0;
    sequence.append(token);
    sequence.sink.token(token, logProb);
    if (hasStopWord(sequence)) this.#finish(sequence, "stop");
    else if (sequence.numTokens === sequence.maxLength) this.#finish(sequence, "length");
  }

  #finish(sequence: Sequence, reason: FinishReason): void {
    this.#planner.remove(sequence);
    this.#stats.inputTokens += sequence.promptLength;
    this.#stats.outputTokens += sequence.numOutput;
    sequence.sink.finished(reason, sequence.usage());
  }

  #dropCancelled(): void {
    if (!this.#hasCancelled) return;
    this.#hasCancelled = false;
    for (const sequence of [...this.#planner.sequences()]) if (sequence.cancelled) this.#finish(sequence, "cancelled");
  }

  #countStep(plan: StepPlan): void {
    const stats = this.#stats;
    stats.iteration += 1;
    stats.scheduled = plan.sequences.length;
    stats.context = plan.numContextSequences;
    stats.generating = plan.sequences.length - plan.numContextSequences;
    stats.contextTokens = plan.numContextTokens;
    stats.timestampUs = Date.now() * 1000;
    if (stats.iteration % STEPS_PER_MEMORY_LOOK === 0) stats.cpuBytes = process.memoryUsage.rss();
  }

  #goIdle(): void {
    if (this.#planner.numWaiting > 0) throw new Error("step planner: nothing to do while sequences wait");
    this.#planner.checkIntegrity();
    this.#stats.scheduled = 0;
    this.#stats.context = 0;
    this.#stats.generating = 0;
    this.#stats.contextTokens = 0;
    this.#stats.cpuBytes = process.memoryUsage.rss();
    this.#onTurn();
  }

  /** A step that fails, or a broken invariant, ends this engine: what the cache holds can no longer be trusted. */
  #fail(error: unknown): void {
    const cause = error instanceof Error ? error.message : String(error);
    this.#closed = new ServerError("internal", `a step of the engine failed: ${cause}`, { cause: error });
    this.#failAll(this.#closed);
    this.#onTurn();
  }

  /** Set once the engine takes no more requests because a step failed or it was closed. */
  get failure(): ServerError | undefined {
    return this.#closed;
  }

  #failAll(error: ServerError): void {
    for (const sequence of [...this.#planner.sequences()]) {
      this.#planner.remove(sequence);
      sequence.sink.failed(error);
    }
  }
}

/** System-wide monotonic clock, so that times of different processes compare. */
export function nowNs(): number {
  return Number(process.hrtime.bigint());
}

function hasStopWord(sequence: Sequence): boolean {
  for (const word of sequence.request.stopWords) {
    if (word.length <= sequence.numOutput && endsWith(sequence, word, word.length)) return true;
  }
  return false;
}

/** Ids that stand for table rows mean something else with another table: such prompts share cache blocks by content. */
function withTableSalt(request: GenerateRequest): GenerateRequest {
  const table = request.promptTable;
  if (table === undefined) return request;
  const bytes = new Uint8Array(table.values.buffer, table.values.byteOffset, table.values.byteLength);
  return { ...request, cacheSalt: `${request.cacheSalt}#${createHash("sha256").update(bytes).digest("base64")}` };
}
