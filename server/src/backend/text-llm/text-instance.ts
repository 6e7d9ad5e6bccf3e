/**
 * Runs requests for text on an engine: texts to tokens, one generation for each sequence, tokens to texts. `execute`
 * returns at once; the engine does the batching.
 */
import { setImmediate } from "node:timers/promises";
import { MAX_PROMPT_BYTES } from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { forEachChunk } from "../../engine/plan/chunk-queue.ts";
import type { GeneratedChunk } from "../../engine/request/generate.ts";
import type { Logger } from "../../observe/log.ts";
import type { BackendRequest, Batch, ModelInstance } from "../backend.ts";
import { placePrompt } from "../llm/encoder-inputs.ts";
import { type InstanceEngine, type StoppableRequests, splitChunk } from "../llm/llm-instance.ts";
import { isStopRequest } from "../llm/read-row.ts";
import { PlainError } from "./plain-error.ts";
import { SequenceText } from "./sequence-text.ts";
import type { EncodedJob, TextFacts, TextInterface, TextJob, TextRow } from "./text-job.ts";

/** Texts below this are encoded without a pause. */
const MAX_CHARS_AT_ONCE = 65_536;
const CANCELLED = "Request cancelled by client";

export interface TextInstanceOptions {
  readonly name: string;
  readonly facts: TextFacts;
  readonly interface: TextInterface;
  readonly engine: InstanceEngine;
  readonly stoppable: StoppableRequests;
  readonly log: Logger;
}

export class TextInstance implements ModelInstance {
  readonly name: string;
  readonly answersLater = true;
  readonly #options: TextInstanceOptions;
  readonly #running = new Set<Promise<void>>();

  constructor(options: TextInstanceOptions) {
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
    const answer = this.#answer(request).catch((error: unknown) => request.fail(this.#failure(error)));
    this.#running.add(answer);
    void answer.finally(() => this.#running.delete(answer));
  }

  #failure(error: unknown): ServerError {
    const known = ServerError.from(error);
    const { code, message, reason, cause } = known;
    if (code === "cancelled" || known instanceof PlainError) return known;
    return new ServerError(code, this.#options.interface.errorPrefix + message, { reason, cause });
  }

  async #answer(request: BackendRequest): Promise<void> {
    const { stoppable } = this.#options;
    const { id, signal } = request.request;
    if (this.#options.interface.takesStop && isStopRequest(request.request)) {
      this.#stop(id);
    }
    const stopped = new AbortController();
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    stopped.signal.addEventListener("abort", abort, { once: true });
    stoppable.add(id, stopped);
    try {
      await this.#run(request, controller.signal);
      if (signal.aborted || stopped.signal.aborted) throw new ServerError("cancelled", CANCELLED);
    } catch (error) {
      if (signal.aborted || stopped.signal.aborted) throw new ServerError("cancelled", CANCELLED);
      throw error;
    } finally {
      if (signal.aborted) this.#logCancelled();
      controller.abort(); // one sequence that failed ends the others; no effect on those that are done
      signal.removeEventListener("abort", abort);
      stoppable.delete(id, stopped);
    }
  }

  #logCancelled(): void {
    for (const line of this.#options.interface.cancelLines) this.#options.log.info("llm", line);
  }

  /** Its own answer is an error too. Source: TensorRT-LLM, llmapi model.py, `handle_stop_request`. */
  #stop(id: string): never {
    if (id === "") throw new PlainError("A request id must be provided for request cancellation");
    this.#options.stoppable.stop(id);
    throw new ServerError("cancelled", CANCELLED);
  }

  async #run(request: BackendRequest, signal: AbortSignal): Promise<void> {
    const { facts, interface: tensors } = this.#options;
    const jobs = Array.from({ length: request.batchSize }, (_, row) =>
      tensors.read(request.request, row, request.batchSize, facts),
    );
    if (jobs.length > 1 && jobs.some(({ isStreaming }) => isStreaming)) {
      throw invalidArgument(`a stream has one prompt, got ${jobs.length}`);
    }
    const encoded = await Promise.all(jobs.map((job) => this.#encode(job)));
    const [first] = encoded;
    if (first?.job.isStreaming === true) await this.#stream(request, first, signal);
    else await this.#answerWhole(request, encoded, signal);
  }

  async #answerWhole(request: BackendRequest, jobs: readonly EncodedJob[], signal: AbortSignal): Promise<void> {
    const { facts, interface: tensors } = this.#options;
    const rows = await Promise.all(
      jobs.map(async (encoded): Promise<TextRow> => {
        const sequences = this.#sequencesOf(encoded);
        await Promise.all(sequences.map((text, index) => this.#generate(request, encoded, { text, index }, signal)));
        return { encoded, sequences: likeliest(sequences, encoded.job.numReturned) };
      }),
    );
    if (signal.aborted) return;
    request.respond({ outputs: wantedOf(request, tensors.outputs(rows, facts, true)), final: true });
  }

  async #stream(request: BackendRequest, encoded: EncodedJob, signal: AbortSignal): Promise<void> {
    const { facts, interface: tensors } = this.#options;
    const sequences = this.#sequencesOf(encoded);
    let isOver = false;
    const respond = (): Promise<void> | undefined => {
      if (signal.aborted || isOver) return undefined;
      const final = sequences.every(({ finish }) => finish !== undefined);
      isOver = final;
      request.respond({ outputs: wantedOf(request, tensors.outputs([{ encoded, sequences }], facts, false)), final });
      return request.drained();
    };
    await Promise.all(
      sequences.map((text, index) => this.#generate(request, encoded, { text, index }, signal, respond)),
    );
  }

  #sequencesOf({ job, promptTokens }: EncodedJob): SequenceText[] {
    const before = job.echo === "tokens" ? promptTokens : [];
    const { tokenizer } = this.#options.facts;
    return Array.from({ length: job.numSequences }, () => new SequenceText(job, tokenizer, before));
  }

  async #encode(job: TextJob): Promise<EncodedJob> {
    const { tokenizer } = this.#options.facts;
    if (job.prompt.length > MAX_PROMPT_BYTES) {
      throw invalidArgument(`the prompt has ${job.prompt.length} characters, expected at most ${MAX_PROMPT_BYTES}`);
    }
    const steps = tokenizer.encodeSteps(job.prompt, { addSpecialTokens: job.addsSpecialTokens });
    for (;;) {
      const step = steps.next();
      if (step.done === true) return { job, promptTokens: step.value };
      if (job.prompt.length > MAX_CHARS_AT_ONCE) await setImmediate();
    }
  }

  /** One sequence to its end; `respond` is called whenever there is more of it. */
  async #generate(
    request: BackendRequest,
    { job, promptTokens }: EncodedJob,
    { text, index }: { readonly text: SequenceText; readonly index: number },
    signal: AbortSignal,
    respond: () => Promise<void> | undefined = () => undefined,
  ): Promise<void> {
    const own = new AbortController();
    const abort = (): void => own.abort();
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const seed = seedOf(job.generate.seed, index);
    const { tokens } = request.request.origin;
    let isFirst = index === 0;
    const prompt = placePrompt(promptTokens, this.#options.facts.info);
    const generation = this.#options.engine.generate({ ...job.generate, ...prompt, seed, signal: own.signal });
    const push = (chunk: GeneratedChunk): Promise<void> | undefined => {
      if (!text.push(chunk)) return respond();
      own.abort(); // the last response waits for the figures of the end
      return undefined;
    };
    const take = (chunk: GeneratedChunk): Promise<void> | undefined => {
      tokens?.count(isFirst ? promptTokens.length : 0, chunk.tokenIds.length);
      isFirst = false;
      const isSplit = job.isStreaming && chunk.tokenIds.length > 1;
      return isSplit ? inTurn(splitChunk(chunk), push) : push(chunk);
    };
    try {
      await forEachChunk(generation, take);
      if (text.stop !== undefined) await respond();
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }
}

/** One response per token, also when the reader was late and several came at once: clients count them. */
async function inTurn(
  parts: readonly GeneratedChunk[],
  push: (part: GeneratedChunk) => Promise<void> | undefined,
): Promise<void> {
  for (const part of parts) await push(part);
}

/** By the sum of their log-probabilities, in the order in which they were made. */
function likeliest(sequences: readonly SequenceText[], count: number): readonly SequenceText[] {
  if (sequences.length <= count) return sequences;
  return [...sequences].sort((a, b) => b.cumLogProb - a.cumLogProb).slice(0, count);
}

function wantedOf<T extends { readonly name: string }>({ outputNames }: BackendRequest, outputs: readonly T[]): T[] {
  return outputs.filter(({ name }) => outputNames.includes(name));
}

/** Different for each sequence, the request's own for the first. */
function seedOf(seed: bigint | undefined, index: number): bigint | undefined {
  return seed === undefined ? undefined : seed ^ BigInt.asUintN(64, BigInt(index) * 0x9e3779b97f4a7c15n);
}
