/** A request that an engine host has been given, as the server remembers it: enough to finish it or to give it again. */
import type { ServerError } from "../../core/server-error.ts";
import { nowNs } from "../clock.ts";
import type { ChunkQueue } from "../plan/chunk-queue.ts";
import type { BeamResult, FinishReason, GeneratedExtras, GenerateRequest, Usage } from "../request/generate.ts";
import { type GenerationObserver, NO_OBSERVER } from "../request/generation-observer.ts";
import type { SequenceSink } from "../request/sequence.ts";

/** Time of the step report that is being delivered: one look at the clock serves all its tokens. */
export interface ReportArrival {
  readonly nowMs: number;
}

export class PendingRequest implements SequenceSink {
  readonly request: GenerateRequest;
  readonly #queue: ChunkQueue;
  readonly #onOver: () => void;
  readonly #observer: GenerationObserver;
  readonly #arrival: ReportArrival;
  readonly #arrivalNs: number = nowNs();
  readonly #arrivalMs: number = performance.now();
  /** 0 = no token yet. */
  #lastTokenMs = 0;
  /** A host has begun to compute it: its death costs this request. */
  isStarted = false;
  isCancelled = false;
  /** Hosts that it was given to. */
  attempts = 0;

  constructor(
    request: GenerateRequest,
    queue: ChunkQueue,
    onOver: () => void,
    arrival: ReportArrival,
    observer: GenerationObserver = NO_OBSERVER,
  ) {
    this.#arrival = arrival;
    this.request = request;
    this.#queue = queue;
    this.#onOver = onOver;
    this.#observer = observer;
  }

  started(): void {
    this.isStarted = true;
  }

  token(tokenId: number, logProb: number): void {
    this.#noteTokens();
    this.#queue.token(tokenId, logProb);
  }

  extra<K extends keyof GeneratedExtras>(kind: K, values: GeneratedExtras[K]): void {
    this.#queue.extra(kind, values);
  }

  beams(results: readonly BeamResult[]): void {
    if (this.#lastTokenMs === 0) this.#noteTokens();
    this.#queue.beams(results);
  }

  finished(reason: FinishReason, usage: Usage): void {
    this.#onOver();
    this.#observer.finished(reason, usage, performance.now() - this.#arrivalMs);
    this.#queue.finished(reason, usage);
  }

  failed(error: ServerError): void {
    this.#onOver();
    this.#observer.failed();
    this.#queue.failed(error);
  }

  #noteTokens(): void {
    const { nowMs } = this.#arrival;
    if (this.#lastTokenMs === 0) this.#observer.firstToken(nowMs - this.#arrivalMs);
    else this.#observer.nextToken(nowMs - this.#lastTokenMs);
    this.#lastTokenMs = nowMs;
  }

  /** Ends a request that no host has begun. */
  endUnused(): void {
    this.finished("cancelled", {
      promptTokens: this.request.promptTokens.length,
      outputTokens: 0,
      reusedBlocks: 0,
      newBlocks: 0,
      draftTokens: 0,
      acceptedDraftTokens: 0,
      arrivalNs: this.#arrivalNs,
      firstScheduledNs: 0,
      firstTokenNs: 0,
      lastTokenNs: 0,
    });
  }
}
