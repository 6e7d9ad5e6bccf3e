/**
 * Records the times of one request for the Server-Timing header (https://www.w3.org/TR/server-timing), beside the trace
 * that it may have.
 */
import type { RequestTrace, TensorMoment, TraceMoment } from "../../core/request-trace.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Reported durations, each between two events. */
const SPANS: readonly (readonly [name: string, from: TraceMoment, to: TraceMoment])[] = [
  ["recv", "HTTP_RECV_START", "HTTP_RECV_END"],
  ["queue", "QUEUE_START", "COMPUTE_START"],
  ["compute-input", "COMPUTE_START", "COMPUTE_INPUT_END"],
  ["compute-infer", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"],
  ["compute-output", "COMPUTE_OUTPUT_START", "COMPUTE_END"],
];

export class TimedTrace implements RequestTrace {
  readonly #sampled: RequestTrace | undefined;
  /** The first time of each: a stream may reach a moment often. */
  readonly #times = new Map<TraceMoment, number>();

  /** `sampled`: the trace that gets everything too; it has `received` already. */
  constructor(sampled: RequestTrace | undefined, received: readonly (readonly [TraceMoment, number])[] = []) {
    this.#sampled = sampled;
    for (const [moment, atMs] of received) this.#times.set(moment, atMs);
  }

  get context(): string | undefined {
    return this.#sampled?.context;
  }

  mark(moment: TraceMoment, atMs: number): void {
    if (!this.#times.has(moment)) this.#times.set(moment, atMs);
    this.#sampled?.mark(moment, atMs);
  }

  tensors(moment: TensorMoment, tensors: readonly Tensor[]): void {
    this.#sampled?.tensors(moment, tensors);
  }

  begin(modelVersion: string, requestId: string, atMs: number): void {
    this.#sampled?.begin(modelVersion, requestId, atMs);
  }

  end(): void {
    this.#sampled?.end();
  }

  /** Ensemble steps have times of their own, which are not reported. */
  child(modelName: string): RequestTrace {
    return this.#sampled?.child(modelName) ?? new TimedTrace(undefined);
  }

  /** The value of a Server-Timing header: what is over, and all since the request came, in milliseconds. */
  summary(arrivalMs: number, nowMs: number): string {
    const parts: string[] = [];
    for (const [name, from, to] of SPANS) {
      const fromMs = this.#times.get(from);
      const toMs = this.#times.get(to);
      if (fromMs !== undefined && toMs !== undefined) parts.push(part(name, toMs - fromMs));
    }
    parts.push(part("total", nowMs - arrivalMs));
    return parts.join(", ");
  }
}

function part(name: string, durationMs: number): string {
  return `${name};dur=${Math.max(0, durationMs).toFixed(3)}`;
}
