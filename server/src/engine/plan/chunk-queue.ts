/**
 * Carries the tokens of one sequence from the step loop to its reader. The loop never waits: a late reader finds the
 * tokens of several steps in one chunk, at four bytes each.
 */
import { ServerError } from "../../core/server-error.ts";
import type { BeamResult, FinishReason, GeneratedChunk, GeneratedExtras, Usage } from "../request/generate.ts";
import { ExtrasBuffer } from "../request/generated-extras.ts";
import type { SequenceSink } from "../request/sequence.ts";

/** Returns a promise if the next chunk has to wait for it. An exception ends the generation. */
export type TakeChunk = (chunk: GeneratedChunk) => Promise<unknown> | undefined;

/** Settles behind the last chunk. @throws what the generation fails with, and what `take` throws or rejects with */
export async function forEachChunk(chunks: AsyncIterable<GeneratedChunk>, take: TakeChunk): Promise<void> {
  if (chunks instanceof ChunkQueue) chunks.deliverTo(take);
  for await (const chunk of chunks) {
    const behind = take(chunk);
    if (behind !== undefined) await behind;
  }
}

/** Queues to be woken in this turn: one microtask serves all sequences of a step. */
let due: ChunkQueue[] = [];

function wakeAll(): void {
  const queues = due;
  due = [];
  for (const queue of queues) queue.wake();
}

type Result = IteratorResult<GeneratedChunk, undefined>;

const DONE: Result = { done: true, value: undefined };
const NO_LOG_PROBS = new Float32Array(0);

export class ChunkQueue implements SequenceSink, AsyncIterableIterator<GeneratedChunk, undefined> {
  readonly #withLogProbs: boolean;
  readonly #signal: AbortSignal | undefined;
  #cancel: () => void = () => undefined;
  #tokens = new Int32Array(16);
  #logProbs: Float32Array;
  #numTokens = 0;
  #cumLogProb = 0;
  #extras: ExtrasBuffer | undefined;
  #beams: readonly BeamResult[] | undefined;
  #end: { reason: FinishReason; usage: Usage } | undefined;
  #error: ServerError | undefined;
  #isOver = false;
  #reader: { resolve: (result: Result) => void; reject: (error: unknown) => void } | undefined;
  #isWakeDue = false;
  #deliver: TakeChunk | undefined;
  /** The chunk delivered last asked to wait. */
  #isBehind = false;

  constructor(withLogProbs: boolean, signal: AbortSignal | undefined) {
    this.#withLogProbs = withLogProbs;
    this.#logProbs = withLogProbs ? new Float32Array(16) : NO_LOG_PROBS;
    this.#signal = signal;
  }

  /** Says how to end the production; it is called at most once, when the signal aborts or the reader leaves early. */
  onCancel(cancel: () => void): void {
    this.#cancel = cancel;
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /**
   * From here on, chunks that find the reader waiting go to `take` without a promise each. The last one, and those that had
   * to wait, are iterated.
   */
  deliverTo(take: TakeChunk): void {
    this.#deliver = take;
  }

  started(): void {
    // Used only at a process boundary.
  }

  token(tokenId: number, logProb: number): void {
    if (this.#numTokens === this.#tokens.length) this.#grow();
    this.#tokens[this.#numTokens] = tokenId;
    if (this.#withLogProbs) this.#logProbs[this.#numTokens] = logProb;
    this.#numTokens += 1;
    this.#cumLogProb += logProb;
    this.#wakeSoon();
  }

  extra<K extends keyof GeneratedExtras>(kind: K, values: GeneratedExtras[K]): void {
    this.#extras ??= new ExtrasBuffer();
    this.#extras.add(kind, values);
  }

  beams(results: readonly BeamResult[]): void {
    this.#beams = results;
  }

  finished(reason: FinishReason, usage: Usage): void {
    this.#end = { reason, usage };
    this.#settle();
  }

  failed(error: ServerError): void {
    this.#error = error;
    this.#settle();
  }

  next(): Promise<Result> {
    if (this.#numTokens > 0 || this.#end !== undefined) return Promise.resolve(this.#take());
    const error = this.#error;
    if (error !== undefined) {
      this.#error = undefined;
      this.#isOver = true;
      return Promise.reject(error);
    }
    if (this.#isOver) return Promise.resolve(DONE);
    if (this.#reader !== undefined) {
      return Promise.reject(new ServerError("internal", "a generation has one reader: next() was called twice"));
    }
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  return(): Promise<Result> {
    if (!this.#isOver && this.#end === undefined && this.#error === undefined) this.#cancel();
    this.#settle();
    this.#isOver = true;
    this.#end = undefined;
    this.#error = undefined;
    this.#numTokens = 0;
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #onAbort = (): void => this.#cancel();

  #settle(): void {
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#wakeSoon();
  }

  /** A microtask later, so that the last token of a step and the end of its sequence leave in one chunk. */
  #wakeSoon(): void {
    if (this.#isWakeDue || this.#reader === undefined || this.#isBehind) return;
    this.#isWakeDue = true;
    if (due.push(this) === 1) queueMicrotask(wakeAll);
  }

  /** By `wakeAll` only. */
  wake(): void {
    this.#isWakeDue = false;
    const reader = this.#reader;
    if (reader === undefined) return;
    const isLast = this.#end !== undefined || this.#error !== undefined || this.#isOver;
    if (this.#deliver !== undefined && !isLast && this.#numTokens > 0) {
      this.#handOver(this.#deliver);
      return;
    }
    this.#reader = undefined;
    this.next().then(reader.resolve, reader.reject);
  }

  #handOver(take: TakeChunk): void {
    try {
      const behind = take(this.#chunk());
      if (behind === undefined) return;
      this.#isBehind = true;
      behind.then(
        () => this.#caughtUp(),
        (error: unknown) => this.#giveUp(error),
      );
    } catch (error) {
      this.#giveUp(error);
    }
  }

  /** Whatever came meanwhile is one chunk. */
  #caughtUp(): void {
    this.#isBehind = false;
    const hasMore = this.#numTokens > 0 || this.#end !== undefined || this.#error !== undefined || this.#isOver;
    if (hasMore) this.#wakeSoon();
  }

  #giveUp(error: unknown): void {
    this.#isBehind = false;
    const reader = this.#reader;
    this.#reader = undefined;
    void this.return();
    reader?.reject(error);
  }

  #take(): Result {
    const value = this.#chunk();
    if (this.#end !== undefined) {
      this.#end = undefined;
      this.#isOver = true;
    }
    return { done: false, value };
  }

  #chunk(): GeneratedChunk {
    const end = this.#end;
    const chunk: GeneratedChunk = {
      tokenIds: this.#tokens.slice(0, this.#numTokens),
      logProbs: this.#withLogProbs ? this.#logProbs.slice(0, this.#numTokens) : NO_LOG_PROBS,
      cumLogProb: this.#withLogProbs ? this.#cumLogProb : 0,
      ...(this.#extras === undefined ? {} : { extras: this.#extras.take() }),
      ...(end === undefined || this.#beams === undefined ? {} : { beams: this.#beams }),
      ...(end === undefined ? {} : { finishReason: end.reason, usage: end.usage }),
    };
    this.#numTokens = 0;
    return chunk;
  }

  #grow(): void {
    const tokens = new Int32Array(this.#tokens.length * 2);
    tokens.set(this.#tokens);
    this.#tokens = tokens;
    if (!this.#withLogProbs) return;
    const logProbs = new Float32Array(tokens.length);
    logProbs.set(this.#logProbs);
    this.#logProbs = logProbs;
  }
}
