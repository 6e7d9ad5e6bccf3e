/**
 * Runs requests on an engine: one generation per row, answers as they come. `execute` returns at once, so the scheduler
 * hands over the next requests while these generate; the engine does the batching.
 */

import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { GeneratedChunk, Generator, Usage } from "../../engine/generate.ts";
import type { BackendRequest, Batch, ModelInstance } from "../backend.ts";
import type { LlmSettings } from "./llm-settings.ts";
import { isStopRequest, type LlmRow, readRow } from "./read-row.ts";
import { outputTensors, type RowOutput } from "./row-outputs.ts";

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
  readonly onUsage: (usage: Usage) => void;
  /** Requests that can be stopped by id, shared by the instances of a model. */
  readonly stoppable: StoppableRequests;
}

/** Generations under way by the id that their client gave them. */
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
  readonly #options: LlmInstanceOptions;
  readonly #running = new Set<Promise<void>>();

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
      throw new ServerError("invalid_argument", "Cannot send stop request without specifying a request_id");
    }
    this.#options.stoppable.stop(id);
    request.respond({ outputs: [], final: true });
  }

  async #generate(request: BackendRequest, rows: readonly LlmRow[], signal: AbortSignal): Promise<void> {
    const outcome = { numLeft: rows.length };
    const outputs = await Promise.all(rows.map((row, i) => this.#generateRow(request, row, i, signal, outcome)));
    if (request.request.signal.aborted) {
      request.fail(new ServerError("cancelled", "request was cancelled by its client"));
    } else if (!this.#options.settings.isDecoupled) {
      this.#respond(request, outputs, true);
    }
  }

  /** Answers for one row as it goes, unless the model gives one response per request; returns all of it. */
  async #generateRow(
    request: BackendRequest,
    row: LlmRow,
    batchIndex: number,
    signal: AbortSignal,
    outcome: { numLeft: number },
  ): Promise<RowOutput> {
    const { engine, settings, onUsage } = this.#options;
    const chunks: GeneratedChunk[] = [];
    for await (const chunk of engine.generate({ ...row.generate, signal })) {
      if (chunk.usage !== undefined) onUsage(chunk.usage);
      chunks.push(chunk);
      if (row.isStreaming) await this.#stream(request, row, chunk, batchIndex, outcome);
    }
    const whole = rowOutput(row, chunks, batchIndex);
    if (settings.isDecoupled && !row.isStreaming) {
      outcome.numLeft -= 1;
      this.#respond(request, [whole], outcome.numLeft === 0);
    }
    return whole;
  }

  /** One response per token, also when the reader was late and several came at once: clients count them. */
  async #stream(
    request: BackendRequest,
    row: LlmRow,
    chunk: GeneratedChunk,
    batchIndex: number,
    outcome: { numLeft: number },
  ): Promise<void> {
    for (const part of splitChunk(chunk)) {
      const isLast = part.finishReason !== undefined;
      if (isLast) outcome.numLeft -= 1;
      this.#respond(request, [rowOutput(row, [part], batchIndex)], isLast && outcome.numLeft === 0);
      await request.drained();
    }
  }

  #respond(request: BackendRequest, rows: readonly RowOutput[], final: boolean): void {
    if (request.request.signal.aborted) return; // the end of `#generate` answers
    request.respond({ outputs: outputTensors(this.#options.config, request.outputNames, rows), final });
  }
}

function splitChunk(chunk: GeneratedChunk): GeneratedChunk[] {
  const { tokenIds, logProbs, cumLogProb, ...end } = chunk;
  if (tokenIds.length <= 1) return [chunk];
  let sum = cumLogProb - logProbs.reduce((total, value) => total + value, 0);
  return Array.from(tokenIds, (_, i) => {
    sum += logProbs[i] ?? 0;
    const part = { tokenIds: tokenIds.subarray(i, i + 1), logProbs: logProbs.subarray(i, i + 1), cumLogProb: sum };
    return i === tokenIds.length - 1 ? { ...part, ...end } : part;
  });
}

/** Joins chunks; the prompt goes in front where the row wants it. Log-probabilities are those of the output tokens. */
function rowOutput(row: LlmRow, chunks: readonly GeneratedChunk[], batchIndex: number): RowOutput {
  const numNew = chunks.reduce((sum, chunk) => sum + chunk.tokenIds.length, 0);
  const prompt = row.excludeInput ? [] : row.generate.promptTokens;
  const tokenIds = new Int32Array(prompt.length + numNew);
  const logProbs = new Float32Array(numNew);
  tokenIds.set(prompt);
  let at = 0;
  for (const chunk of chunks) {
    tokenIds.set(chunk.tokenIds, prompt.length + at);
    logProbs.set(chunk.logProbs, at);
    at += chunk.tokenIds.length;
  }
  const last = chunks.at(-1);
  return {
    tokenIds,
    logProbs,
    cumLogProb: last?.cumLogProb ?? 0,
    batchIndex,
    usage: row.wantsPerfMetrics ? last?.usage : undefined,
  };
}
