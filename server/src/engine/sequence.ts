/**
 * One sequence in the engine: its tokens so far, its cache blocks, and how far they are computed.
 * The planner moves it between waiting and running, the engine appends tokens; it decides nothing itself.
 *
 *   tokens:  [ computed, in the cache | to compute in the next steps )
 *            0                        numComputed                    numTokens
 */
import { randomBytes } from "node:crypto";
import type { ServerError } from "../core/server-error.ts";
import type { FinishReason, GenerateRequest, Usage } from "./generate.ts";

/** Where the results of a sequence go. Called from the step loop: must not throw and must not wait. */
export interface SequenceSink {
  /** Its first step is about to run: from here on a crash costs this request. */
  started(): void;
  token(tokenId: number, logProb: number): void;
  finished(reason: FinishReason, usage: Usage): void;
  failed(error: ServerError): void;
}

export interface SequenceLimits {
  readonly blockSize: number;
  readonly vocabSize: number;
  /** Prompt and output together. */
  readonly maxSequenceLength: number;
}

export class Sequence {
  readonly request: GenerateRequest;
  readonly sink: SequenceSink;
  readonly promptLength: number;
  /** The length at which it ends at the latest. */
  readonly maxLength: number;
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Occurrences that presence and frequency count; a token seen only in the ignored prompt stands at 0. */
  readonly occurrences: Map<number, number> | undefined;
  tokens: Int32Array;
  numTokens: number;
  numComputed = 0;
  readonly blockTable: Int32Array;
  numBlocks = 0;
  reusedBlocks = 0;
  newBlocks = 0;
  cancelled = false;
  arrivalNs = 0;
  firstScheduledNs = 0;
  firstTokenNs = 0;
  lastTokenNs = 0;

  constructor(request: GenerateRequest, sink: SequenceSink, limits: SequenceLimits) {
    this.request = request;
    this.sink = sink;
    this.promptLength = request.promptTokens.length;
    this.maxLength = Math.min(this.promptLength + request.maxTokens, limits.maxSequenceLength);
    this.tokens = new Int32Array(Math.min(this.maxLength, this.promptLength + 64));
    this.tokens.set(request.promptTokens);
    this.numTokens = this.promptLength;
    this.blockTable = new Int32Array(Math.ceil(this.maxLength / limits.blockSize));
    const seed = request.seed ?? randomBytes(8).readBigUInt64LE();
    this.seedLow = Number(BigInt.asIntN(32, seed));
    this.seedHigh = Number(BigInt.asIntN(32, seed >> 32n));
    this.occurrences = hasPenalty(request) ? new Map() : undefined;
    for (let i = 0; i < this.promptLength; i++) {
      this.#count(request.promptTokens[i] ?? 0, i >= request.promptIgnoreLength ? 1 : 0);
    }
  }

  get numOutput(): number {
    return this.numTokens - this.promptLength;
  }

  append(token: number): void {
    if (this.numTokens === this.tokens.length) {
      const larger = new Int32Array(Math.min(this.maxLength, this.tokens.length * 2));
      larger.set(this.tokens);
      this.tokens = larger;
    }
    this.tokens[this.numTokens] = token;
    this.numTokens += 1;
    this.#count(token, 1);
  }

  usage(): Usage {
    return {
      promptTokens: this.promptLength,
      outputTokens: this.numOutput,
      reusedBlocks: this.reusedBlocks,
      newBlocks: this.newBlocks,
      arrivalNs: this.arrivalNs,
      firstScheduledNs: this.firstScheduledNs,
      firstTokenNs: this.firstTokenNs,
      lastTokenNs: this.lastTokenNs,
    };
  }

  #count(token: number, weight: number): void {
    this.occurrences?.set(token, (this.occurrences.get(token) ?? 0) + weight);
  }
}

function hasPenalty(request: GenerateRequest): boolean {
  return request.repetitionPenalty !== 1 || request.presencePenalty !== 0 || request.frequencyPenalty !== 0;
}
