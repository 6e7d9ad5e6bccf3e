/**
 * Runs requests on an engine: one generation per row, answers as they come. `execute` returns at once, so the scheduler
 * hands over the next requests while these generate; the engine does the batching.
 */

import { isCancelled } from "../../core/infer-request.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { forEachChunk } from "../../engine/plan/chunk-queue.ts";
import {
  type BeamResult,
  EMPTY_TOKENS,
  type GeneratedChunk,
  type GeneratedExtras,
  type Generator,
} from "../../engine/request/generate.ts";
import { EXTRA_KINDS, ExtrasBuffer } from "../../engine/request/generated-extras.ts";
import type { BackendRequest, Batch, ModelInstance } from "../backend.ts";
import { numInputTokens } from "./encoder-inputs.ts";
import type { LlmSettings } from "./llm-settings.ts";
import { isStopRequest, type LlmRow, readRow } from "./read-row.ts";
import { type BeamOutput, outputTensors, type RowOutput } from "./row-outputs.ts";
import { ElementSlab, TokenOutputs } from "./token-outputs.ts";

/** The engine of an instance, wherever it runs. */
export interface InstanceEngine extends Generator {
  isReady(): boolean;
  close(): Promise<void>;
}

export interface LlmInstanceOptions {
  readonly name: string;
  readonly config: ModelConfig;
  readonly settings: LlmSettings;
  readonly engine: InstanceEngine;
  /** Requests that can be stopped by id, shared by the instances of a model. */
  readonly stoppable: StoppableRequests;
}

/** Running generations by the id that their client gave them. */
export class StoppableRequests {
  readonly #byId = new Map<string, Set<AbortController>>();

  add(id: string, controller: AbortController): void {
    if (id === "") return;
    const known = this.#byId.get(id);
    if (known === undefined) this.#byId.set(id, new Set([controller]));
    else known.add(controller);
  }

  delete(id: string, controller: AbortController): void {
    const known = this.#byId.get(id);
    known?.delete(controller);
    if (known?.size === 0) this.#byId.delete(id);
  }

  stop(id: string): void {
    for (const controller of this.#byId.get(id) ?? []) controller.abort();
  }
}

export class LlmInstance implements ModelInstance {
  readonly name: string;
  readonly answersLater = true;
  readonly #options: LlmInstanceOptions;
  readonly #running = new Set<Promise<void>>();
  readonly #slab = new ElementSlab();

  constructor(options: LlmInstanceOptions) {
    this.name = options.name;
    this.#options = options;
  }

  execute(batch: Batch): undefined {
    batch.computeStarted();
    for (const request of batch.requests) this.#start(request);
    batch.computeEnded();
  }

  isReady(): boolean {
    return this.#options.engine.isReady();
  }

  /** An engine that is being restarted comes last. */
  load(): number {
    return this.isReady() ? this.#running.size : Number.MAX_SAFE_INTEGER;
  }

  async close(): Promise<void> {
    await this.#options.engine.close();
    await Promise.all(this.#running);
  }

  #start(request: BackendRequest): void {
    const answer = this.#answer(request).catch((error: unknown) => request.fail(ServerError.from(error)));
    this.#running.add(answer);
    void answer.finally(() => this.#running.delete(answer));
  }

  async #answer(request: BackendRequest): Promise<void> {
    const { settings, stoppable } = this.#options;
    if (isStopRequest(request.request)) {
      this.#stop(request);
      return;
    }
    const rows = Array.from({ length: request.batchSize }, (_, i) =>
      readRow(request.request, i, request.batchSize, settings),
    );
    const { id, signal } = request.request;
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    stoppable.add(id, controller);
    try {
      await this.#generate(request, rows, controller.signal);
    } finally {
      controller.abort(); // one row that failed ends the others; no effect on those that are done
      signal.removeEventListener("abort", abort);
      stoppable.delete(id, controller);
    }
  }

  #stop(request: BackendRequest): void {
    const { id } = request.request;
    if (id === "") {
      throw invalidArgument("Cannot send stop request without specifying a request_id");
    }
    this.#options.stoppable.stop(id);
    request.respond({ outputs: [], final: true });
  }

  async #generate(request: BackendRequest, rows: readonly LlmRow[], signal: AbortSignal): Promise<void> {
    const jobs = rows.flatMap((row, batchIndex) =>
      Array.from({ length: row.numSequences }, (_, sequenceIndex) => ({ row, batchIndex, sequenceIndex })),
    );
    const outcome = { numLeft: jobs.length };
    const outputs = await Promise.all(jobs.map((job) => this.#generateRow(request, job, signal, outcome)));
    if (request.request.signal.aborted) {
      request.fail(new ServerError("cancelled", "request was cancelled by its client"));
    } else if (!this.#options.settings.isDecoupled) {
      this.#respond(request, outputs, true);
    }
  }

  /** Answers for one row as it goes, unless the model gives one response per request; returns all of it. */
  async #generateRow(
    request: BackendRequest,
    job: Job,
    signal: AbortSignal,
    outcome: { numLeft: number },
  ): Promise<RowOutput> {
    const { engine, settings } = this.#options;
    const { row } = job;
    const seed = seedOf(row.generate.seed, job.sequenceIndex);
    const chunks: GeneratedChunk[] = [];
    const generation = engine.generate({ ...row.generate, seed, signal });
    if (row.isStreaming) await this.#streamAll(request, job, generation, outcome);
    else {
      for await (const chunk of generation) {
        countTokens(request, row, chunk, chunks.length === 0);
        chunks.push(chunk);
      }
    }
    const whole = rowOutput(job, chunks);
    if (settings.isDecoupled && !row.isStreaming) {
      outcome.numLeft -= 1;
      this.#respond(request, [whole], outcome.numLeft === 0);
    }
    return whole;
  }

  /** One response per token, also when the reader was late and several came at once: clients count them. */
  async #streamAll(
    request: BackendRequest,
    job: Job,
    generation: AsyncIterable<GeneratedChunk>,
    outcome: { numLeft: number },
  ): Promise<void> {
    let tokens: TokenOutputs | undefined;
    const respond = (part: GeneratedChunk): Promise<void> | undefined => {
      if (isPlainToken(part)) {
        tokens ??= this.#tokenOutputs(request, job, part);
        respondToken(request, tokens, part);
      } else {
        this.#streamPart(request, job, part, outcome);
      }
      return request.drained();
    };
    let isFirst = true;
    await forEachChunk(generation, (chunk) => {
      countTokens(request, job.row, chunk, isFirst);
      isFirst = false;
      return chunk.tokenIds.length <= 1 ? respond(chunk) : respondInTurn(splitChunk(chunk), respond);
    });
  }

  #streamPart(request: BackendRequest, job: Job, part: GeneratedChunk, outcome: { numLeft: number }): void {
    const isLast = part.finishReason !== undefined;
    if (isLast) outcome.numLeft -= 1;
    this.#respond(request, [rowOutput(job, [part])], isLast && outcome.numLeft === 0);
  }

  #tokenOutputs(request: BackendRequest, job: Job, part: GeneratedChunk): TokenOutputs {
    const first = outputTensors(this.#options.config, request.outputNames, [rowOutput(job, [part])]);
    return new TokenOutputs(first, job.row.generate.logProbs, this.#slab);
  }

  #respond(request: BackendRequest, rows: readonly RowOutput[], final: boolean): void {
    if (request.request.signal.aborted) return; // the end of `#generate` answers
    request.respond({ outputs: outputTensors(this.#options.config, request.outputNames, rows), final });
  }
}

/** The prompt counts with the first chunk: nothing was used before. */
function countTokens({ request }: BackendRequest, { generate }: LlmRow, chunk: GeneratedChunk, isFirst: boolean): void {
  const { tokens } = request.origin;
  if (tokens === undefined) return;
  const numBeamTokens = chunk.beams?.reduce((sum, beam) => sum + beam.tokenIds.length, 0);
  tokens.count(isFirst ? numInputTokens(generate) : 0, numBeamTokens ?? chunk.tokenIds.length);
}

/** Sends the responses of a slow reader. */
async function respondInTurn(
  parts: readonly GeneratedChunk[],
  respond: (part: GeneratedChunk) => Promise<void> | undefined,
): Promise<void> {
  for (const part of parts) {
    const behind = respond(part);
    if (behind !== undefined) await behind;
  }
}

function respondToken(request: BackendRequest, tokens: TokenOutputs, part: GeneratedChunk): void {
  if (isCancelled(request.request)) return; // the end of `#generate` answers
  const [id = 0] = part.tokenIds;
  const outputs = tokens.of({ id, logProb: part.logProbs[0] ?? 0, cumLogProb: part.cumLogProb });
  request.respond({ outputs, final: false });
}

/** A row once for each sequence that it asks for. */
interface Job {
  readonly row: LlmRow;
  readonly batchIndex: number;
  readonly sequenceIndex: number;
}

/** Different for each sequence of a row, the row's own for the first. */
function seedOf(seed: bigint | undefined, sequenceIndex: number): bigint | undefined {
  return seed === undefined ? undefined : seed ^ BigInt.asUintN(64, BigInt(sequenceIndex) * 0x9e3779b97f4a7c15n);
}

/** One token, and nothing else. */
function isPlainToken({ tokenIds, extras, beams, finishReason }: GeneratedChunk): boolean {
  return tokenIds.length === 1 && extras === undefined && beams === undefined && finishReason === undefined;
}

/** One for each of its tokens, of which there is more than one. */
export function splitChunk(chunk: GeneratedChunk): readonly GeneratedChunk[] {
  const { tokenIds, logProbs, cumLogProb, extras, ...end } = chunk;
  let sum = cumLogProb - logProbs.reduce((total, value) => total + value, 0);
  return Array.from(tokenIds, (_, i) => {
    sum += logProbs[i] ?? 0;
    const part = { tokenIds: tokenIds.subarray(i, i + 1), logProbs: logProbs.subarray(i, i + 1), cumLogProb: sum };
    const own = extras === undefined ? part : { ...part, extras: extrasOf(extras, i, tokenIds.length) };
    return i === tokenIds.length - 1 ? { ...own, ...end } : own;
  });
}

/** Extras of token `index` of `count`; all those of the prompt go with the first. */
function extrasOf(extras: Readonly<GeneratedExtras>, index: number, count: number): GeneratedExtras {
  const own = <T extends Float32Array | Int32Array>(values: T): T =>
    values.subarray((values.length / count) * index, (values.length / count) * (index + 1)) as T;
  const first = <T extends Float32Array | Int32Array>(values: T): T =>
    (index === 0 ? values : values.subarray(0, 0)) as T;
  return {
    contextLogits: first(extras.contextLogits),
    generationLogits: own(extras.generationLogits),
    topIds: own(extras.topIds),
    topLogProbs: own(extras.topLogProbs),
    promptLogProbs: first(extras.promptLogProbs),
    promptTopIds: first(extras.promptTopIds),
    promptTopLogProbs: first(extras.promptTopLogProbs),
  };
}

/** Joins chunks; the prompt goes in front where the row wants it. Log-probabilities are those of the output tokens. */
function rowOutput({ row, batchIndex, sequenceIndex }: Job, chunks: readonly GeneratedChunk[]): RowOutput {
  const last = chunks.at(-1);
  const extras = joinExtras(chunks);
  const usage = last?.usage;
  return {
    beams: last?.beams?.map((beam) => beamOutput(row, beam)) ?? [beamOutput(row, joinTokens(chunks, extras))],
    batchIndex,
    sequenceIndex,
    extras,
    numContextRows: row.generate.promptTokens.length,
    topLogProbs: row.generate.topLogProbs,
    usage: row.wantsPerfMetrics ? usage : undefined,
    cacheUsage: row.wantsCacheMetrics ? usage : undefined,
    numInputTokens: row.wantsInputCount ? numInputTokens(row.generate) : 0,
    numOutputTokens: row.wantsOutputCount ? (usage?.outputTokens ?? 0) : 0,
  };
}

function beamOutput({ generate, excludeInput }: LlmRow, beam: BeamResult): BeamOutput {
  const prompt = excludeInput ? EMPTY_TOKENS : generate.promptTokens;
  const tokenIds = new Int32Array(prompt.length + beam.tokenIds.length);
  tokenIds.set(prompt);
  tokenIds.set(beam.tokenIds, prompt.length);
  return {
    tokenIds,
    numNewTokens: beam.tokenIds.length,
    // Scores of beams exist whether asked for or not; told they are when asked for.
    logProbs: generate.logProbs ? beam.logProbs : new Float32Array(beam.tokenIds.length),
    cumLogProb: generate.logProbs ? beam.cumLogProb : 0,
    logits: beam.logits,
  };
}

function joinTokens(chunks: readonly GeneratedChunk[], extras: GeneratedExtras | undefined): BeamResult {
  const numNew = chunks.reduce((sum, chunk) => sum + chunk.tokenIds.length, 0);
  const tokenIds = new Int32Array(numNew);
  const logProbs = new Float32Array(numNew);
  let at = 0;
  for (const chunk of chunks) {
    tokenIds.set(chunk.tokenIds, at);
    logProbs.set(chunk.logProbs, at);
    at += chunk.tokenIds.length;
  }
  const logits = extras?.generationLogits ?? new Float32Array(0);
  return { tokenIds, logProbs, cumLogProb: chunks.at(-1)?.cumLogProb ?? 0, logits };
}

function joinExtras(chunks: readonly GeneratedChunk[]): GeneratedExtras | undefined {
  if (chunks.every(({ extras }) => extras === undefined)) return undefined;
  const buffer = new ExtrasBuffer();
  for (const { extras } of chunks) {
    if (extras !== undefined) for (const kind of EXTRA_KINDS) buffer.add(kind, extras[kind]);
  }
  return buffer.take();
}
