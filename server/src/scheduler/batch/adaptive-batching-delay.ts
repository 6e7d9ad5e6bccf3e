/**
 * Tells when waiting for company is in vain: while every request has had its model for itself, from its coming to its end, a batch
 * would gather nobody. Now and then a request waits all the same, to see who would come. Knows neither time nor queue.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";

/** So many requests in a row must have been alone, each of them through the whole of its delay. */
const PROOF = 32;
/**
 * Of requests that do not wait, every so manyth does. A prime: requests that come in groups of the same size, a few or many, would else be
 * probed at the same place of each group again and again, and who comes last of a group meets nobody.
 */
const PROBE_EVERY = 17;
/** Who configures a longer delay wants batches more than answers. */
const MAX_DELAY_US = 5000;
const PARAMETER = "delay_lone_requests";

export class SingleClientTraffic {
  #numLone = 0;

  /** A request comes. `isAlone`: it finds no other that waits, runs or comes with it. */
  arrived(isAlone: boolean): void {
    this.#numLone = isAlone ? this.#numLone + 1 : 0;
  }

  /** Whether the request that came last need not wait for others. */
  get isDelayInVain(): boolean {
    return this.#numLone > PROOF && this.#numLone % PROBE_EVERY !== 0;
  }
}

/** Whether a lone request of this model may go without the delay: where it is short, and nothing else was asked of the queue. */
export function usesAdaptiveDelay(config: ModelConfig): boolean {
  const { dynamic_batching: batching, max_batch_size } = config;
  if (batching === undefined || max_batch_size < 2 || wordOf(config) === "true") return false;
  const { max_queue_delay_microseconds: delayUs, preferred_batch_size: sizes } = batching;
  const isPlain =
    !batching.preserve_ordering &&
    batching.priority_levels === 0 &&
    batching.default_queue_policy === undefined &&
    Object.keys(batching.priority_queue_policy).length === 0;
  return isPlain && delayUs > 0 && delayUs <= MAX_DELAY_US && sizes.every((size) => size === max_batch_size);
}

/** @throws ServerError when the model's own word about it is neither true nor false */
export function expectAdaptiveDelaySetting(config: ModelConfig): void {
  const word = wordOf(config);
  if (word === undefined || word === "true" || word === "false") return;
  const text = `parameter '${PARAMETER}' of model '${config.name}' must be 'true' or 'false', got '${word}'`;
  throw new ServerError("invalid_argument", text);
}

function wordOf({ parameters }: ModelConfig): string | undefined {
  return Object.hasOwn(parameters, PARAMETER) ? parameters[PARAMETER]?.string_value : undefined;
}
