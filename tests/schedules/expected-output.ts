/** The output that a request must give under any load: computed token by token, by its own parameters alone. */

import { TokenStep } from "../../server/src/engine/plan/token-step.ts";
import type { BeamResult, FinishReason, GenerateRequest } from "../../server/src/engine/request/generate.ts";
import { Sequence, type SequenceSink } from "../../server/src/engine/request/sequence.ts";
import { hashLogits } from "../fakes/hash-runner.ts";
import type { Shape } from "./schedule.ts";

export interface Output {
  readonly tokens: readonly number[];
  readonly logProbs: readonly number[];
  readonly beamResults: readonly BeamResult[];
  readonly reason: FinishReason | undefined;
}

/** Keeps what an engine tells about one request, and fails on what it may not tell. */
export class OutputSink implements SequenceSink, Output {
  readonly tokens: number[] = [];
  readonly logProbs: number[] = [];
  beamResults: readonly BeamResult[] = [];
  reason: FinishReason | undefined;
  error: Error | undefined;
  readonly #onOver: () => void;

  constructor(onOver: () => void = () => undefined) {
    this.#onOver = onOver;
  }

  get isOver(): boolean {
    return this.reason !== undefined || this.error !== undefined;
  }

  started(): void {
    this.#expectGoing();
  }

  token(token: number, logProb: number): void {
    this.#expectGoing();
    this.tokens.push(token);
    this.logProbs.push(logProb);
  }

  extra(): void {
    this.#expectGoing();
  }

  beams(results: readonly BeamResult[]): void {
    this.#expectGoing();
    this.beamResults = results;
  }

  finished(reason: FinishReason): void {
    this.#expectGoing();
    this.reason = reason;
    this.#onOver();
  }

  failed(error: Error): void {
    this.#expectGoing();
    this.error = error;
    this.#onOver();
  }

  #expectGoing(): void {
    if (this.isOver) throw new Error("told something after its end");
  }
}

/** Without beam search. */
export function expectedOutput(request: GenerateRequest, shape: Shape, maxSequenceLength: number): Output {
  const sink = new OutputSink();
  const { blockSize, vocabSize, window } = shape;
  const sequence = new Sequence(request, sink, { blockSize, vocabSize, maxSequenceLength });
  const step = new TokenStep(vocabSize);
  const row = new Float32Array(vocabSize);
  while (sink.reason === undefined) {
    hashLogits(sequence.tokens.subarray(0, sequence.numTokens), row, window);
    const reason = step.take(sequence, row, 1);
    if (reason !== undefined) sink.finished(reason);
  }
  return sink;
}
