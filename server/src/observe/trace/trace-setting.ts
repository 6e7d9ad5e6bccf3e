/**
 * Rules of trace settings: changes, refusals, sampling. Source: Triton's trace extension. Every change replaces the
 * settings as a whole, so that counts restart and running traces keep theirs.
 */
import type { TraceChanges, TraceLevel, TraceSettings } from "../../core/request-trace.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** Fields that can be set per model; undefined: inherited. */
export interface OwnSettings {
  readonly levels?: readonly TraceLevel[] | undefined;
  readonly rate?: number | undefined;
  readonly count?: number | undefined;
  readonly logFrequency?: number | undefined;
}

/** Applies a change to the previously set fields. */
export function changedOwn(own: OwnSettings, changes: TraceChanges): OwnSettings {
  return {
    levels: changed(own.levels, changes.levels),
    rate: changed(own.rate, changes.rate),
    count: changed(own.count, changes.count),
    logFrequency: changed(own.logFrequency, changes.logFrequency),
  };
}

function changed<T>(own: T | undefined, change: T | null | undefined): T | undefined {
  return change === undefined ? own : (change ?? undefined);
}

export function hasOwn(own: OwnSettings): boolean {
  return Object.values(own).some((value) => value !== undefined);
}

/** Overlays set fields on inherited ones. */
export function resolveSettings(behind: TraceSettings, own: OwnSettings): TraceSettings {
  return {
    ...behind,
    levels: own.levels ?? behind.levels,
    rate: own.rate ?? behind.rate,
    count: own.count ?? behind.count,
    logFrequency: own.logFrequency ?? behind.logFrequency,
  };
}

/** Why no request can be sampled; undefined when some can. */
export function reasonAgainst({ levels, rate, mode, file }: TraceSettings): string | undefined {
  if (levels.length === 0) return "tracing is disabled";
  if (rate === 0 && mode === "triton") return "sample rate must be non-zero";
  if (mode === "triton" && file === "") return "trace file name is not given";
  return undefined;
}

/** Settings that trace nothing are valid; all others must be usable. @throws ServerError */
export function expectUsable(settings: TraceSettings): void {
  const reason = settings.levels.length === 0 ? undefined : reasonAgainst(settings);
  if (reason === undefined) return;
  throw invalidArgument(`Attempting to set invalid trace setting :${reason}`);
}

/** Counts the requests under one set of settings. */
export class TraceSampler {
  readonly #settings: TraceSettings;
  readonly #isUsable: boolean;
  #numSeen = 0;
  #numLeft: number;

  constructor(settings: TraceSettings) {
    this.#settings = settings;
    this.#isUsable = reasonAgainst(settings) === undefined;
    this.#numLeft = settings.count;
  }

  /** With the current count. */
  get settings(): TraceSettings {
    return { ...this.#settings, count: this.#numLeft };
  }

  /** False: no request will be sampled any more. */
  get isOn(): boolean {
    return this.#isUsable && this.#numLeft !== 0;
  }

  /** The requested number of traces has begun. */
  get isUsedUp(): boolean {
    return this.#settings.count > 0 && this.#numLeft === 0;
  }

  /** `isForced`: the caller already traces the request. */
  sample(isForced: boolean): boolean {
    if (!this.isOn) return false;
    if (!isForced && !this.#isTurn()) return false;
    if (this.#numLeft > 0) this.#numLeft -= 1;
    return true;
  }

  /** The last of every `rate` requests. */
  #isTurn(): boolean {
    const { rate } = this.#settings;
    if (rate === 0) return false;
    this.#numSeen = (this.#numSeen + 1) % rate;
    return this.#numSeen === 0;
  }
}
