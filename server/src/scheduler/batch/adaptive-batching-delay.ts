/**
 * Adaptive batching delay: skips the queue delay for single-client traffic, where waiting would gather nothing. Some
 * requests still wait, to detect new traffic (docs/decisions/005-adaptive-batching-delay.md). Knows neither time nor queue.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** Number of consecutive requests that must have run alone, through the whole delay. */
const PROOF = 32;
/**
 * Every so many skipped requests, one waits. A prime, because groups of requests often have a fixed size. Another
 * interval could probe the same position of each group, for example always its last request.
 */
const PROBE_EVERY = 17;
/** A longer configured delay, in us, says that batches matter more than latency. */
const MAX_DELAY_US = 5000;
const PARAMETER = "adaptive_batching_delay";
/** Alias with the opposite meaning: "true" keeps the whole delay. */
const OLD_PARAMETER = "delay_lone_requests";

export class SingleClientTraffic {
  #numUnbatched = 0;

  /** Records an arrival. `isAlone`: no other request waits, runs or arrives with it. */
  arrived(isAlone: boolean): void {
    this.#numUnbatched = isAlone ? this.#numUnbatched + 1 : 0;
  }

  /** Whether the most recent request may skip the delay. */
  get isDelayInVain(): boolean {
    return this.#numUnbatched > PROOF && this.#numUnbatched % PROBE_EVERY !== 0;
  }
}

/** Whether a model uses the adaptive delay: its delay is short, and no other queue option is set. */
export function usesAdaptiveDelay(config: ModelConfig): boolean {
  const { dynamic_batching: batching, max_batch_size } = config;
  if (batching === undefined || max_batch_size < 2 || isSwitchedOff(config)) return false;
  const { max_queue_delay_microseconds: delayUs, preferred_batch_size: sizes } = batching;
  const isPlain =
    !batching.preserve_ordering &&
    batching.priority_levels === 0 &&
    batching.default_queue_policy === undefined &&
    Object.keys(batching.priority_queue_policy).length === 0;
  return isPlain && delayUs > 0 && delayUs <= MAX_DELAY_US && sizes.every((size) => size === max_batch_size);
}

/** @throws ServerError when the parameter, or its alias, is neither true nor false */
export function expectAdaptiveDelaySetting(config: ModelConfig): void {
  for (const name of [PARAMETER, OLD_PARAMETER]) {
    const word = wordOf(config, name);
    if (word === undefined || word === "true" || word === "false") continue;
    const text = `parameter '${name}' of model '${config.name}' must be 'true' or 'false', got '${word}'`;
    throw invalidArgument(text);
  }
}

/** The parameter counts before its alias. */
function isSwitchedOff(config: ModelConfig): boolean {
  const word = wordOf(config, PARAMETER);
  return word === undefined ? wordOf(config, OLD_PARAMETER) === "true" : word === "false";
}

function wordOf({ parameters }: ModelConfig, name: string): string | undefined {
  return Object.hasOwn(parameters, name) ? parameters[name]?.string_value : undefined;
}
