/** Measures a configuration that is loaded: one closed loop for so many units of time. */
import { ToolError } from "@nereid/server/files/tool-error";
import { type InferOptions, InferTarget } from "../run/infer-run.ts";
import type { Target } from "../target/target.ts";
import { FULL_UNITS } from "./race.ts";

export interface UnitSamples {
  /** Latencies in ms, in groups by the order of their ends. */
  readonly groups: readonly (readonly number[])[];
  readonly numFailed: number;
  /** The first failure, or why there are no samples. */
  readonly failure: string | undefined;
}

const GROUPS_PER_UNIT = 5;
/** Requests of a unit at least, and for each client. */
const MIN_REQUESTS = 5;
const MIN_REQUESTS_PER_CLIENT = 1;
/** A load runs so long before it counts, and until each client had an answer. */
const SETTLE_MS = 50;
/** Requests that a window waits for come within this, or the configuration has failed. */
const WINDOW_TIMEOUT_MS = 120_000;

export class PointMeter implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: InferOptions;
  readonly #maxClients: number;
  #infer: InferTarget | undefined;

  constructor(target: Target, options: InferOptions, maxClients: number) {
    this.#target = target;
    this.#options = options;
    this.#maxClients = maxClients;
  }

  /** Opens connections and prepares requests; the model must be loaded. */
  async open(): Promise<void> {
    this.#infer ??= await InferTarget.open(this.#target, this.#options, this.#maxClients);
  }

  async measure(clients: number, units: number, fullMs: number, signal: AbortSignal): Promise<UnitSamples> {
    await this.open();
    const generator = this.#infer?.generator;
    if (generator === undefined) throw new RangeError("no connection is open");
    const timeout = AbortSignal.timeout(WINDOW_TIMEOUT_MS + fullMs);
    const either = AbortSignal.any([signal, timeout]);
    try {
      generator.apply({ kind: "concurrency", clients });
      await generator.window(SETTLE_MS, clients, either);
      const minCount = units * Math.max(MIN_REQUESTS, MIN_REQUESTS_PER_CLIENT * clients);
      const { latenciesMs, numFailed } = await generator.window((fullMs * units) / FULL_UNITS, minCount, either);
      const failure = numFailed > 0 ? generator.failure : undefined;
      return { groups: inGroups(latenciesMs, units * GROUPS_PER_UNIT), numFailed, failure };
    } catch (error) {
      if (signal.aborted || !timeout.aborted) throw error;
      await this.#drop(); // requests may hang for ever
      return { groups: [], numFailed: 0, failure: `too few answers within ${WINDOW_TIMEOUT_MS / 1000} s` };
    }
  }

  /** Waits until nothing is under way, so that a model can change. */
  async pause(signal: AbortSignal): Promise<void> {
    const timeout = AbortSignal.timeout(WINDOW_TIMEOUT_MS);
    try {
      await this.#infer?.generator.pause(AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted || !timeout.aborted) throw error;
      await this.#drop();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#drop();
  }

  async #drop(): Promise<void> {
    const infer = this.#infer;
    this.#infer = undefined;
    await infer?.[Symbol.asyncDispose]().catch((error: unknown) => {
      if (!(error instanceof ToolError)) throw error; // the server is gone
    });
  }
}

/** Consecutive groups of nearly equal size; fewer when there are too few values. */
export function inGroups(values: readonly number[], count: number): readonly (readonly number[])[] {
  const num = Math.min(count, values.length);
  return Array.from({ length: num }, (_, k) =>
    values.slice(Math.floor((k * values.length) / num), Math.floor(((k + 1) * values.length) / num)),
  );
}
