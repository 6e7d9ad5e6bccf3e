/** The requests of one thread, in their order, as bytes. */
import { encodeInfer } from "../input/infer-encoding.ts";
import { SequenceIds, SequenceSteps } from "../plan/sequences.ts";
import type { ThreadPlan } from "./load-messages.ts";

export interface PlannedRequest {
  readonly number: number;
  readonly bytes: Uint8Array;
}

export interface RequestSource {
  /** The next request of a client; undefined: there are no more. `number`: asked for by a schedule. */
  next(client: number, number?: number): PlannedRequest | undefined;
}

export function createRequestSource({ requests, index, count }: ThreadPlan): RequestSource {
  if (requests.kind === "bytes") return new Listed(requests.requests, requests.next);
  const { specs, encoding, sequences } = requests;
  if (sequences === undefined) return new Repeated(specs.map((spec) => encodeInfer(spec, encoding)));
  const ids = new SequenceIds(sequences, index, count);
  const stepsOf = new Map<number, SequenceSteps>();
  let number = 0;
  return {
    next(client) {
      const steps = stepsOf.get(client) ?? new SequenceSteps(sequences, ids, client);
      stepsOf.set(client, steps);
      const spec = specs[number % specs.length];
      if (spec === undefined) return undefined;
      return { number: number++, bytes: encodeInfer(spec, encoding, steps.next()) };
    },
  };
}

/** Each request once, by whichever thread asks first. */
class Listed implements RequestSource {
  readonly #requests: readonly Uint8Array[];
  readonly #next: Int32Array;

  constructor(requests: readonly Uint8Array[], next: SharedArrayBuffer) {
    this.#requests = requests;
    this.#next = new Int32Array(next);
  }

  next(_client: number, asked?: number): PlannedRequest | undefined {
    const number = asked ?? Atomics.add(this.#next, 0, 1);
    const bytes = this.#requests[number];
    return bytes === undefined ? undefined : { number, bytes };
  }
}

class Repeated implements RequestSource {
  readonly #all: readonly PlannedRequest[];
  #at = 0;

  constructor(bytes: readonly Uint8Array[]) {
    this.#all = bytes.map((each, number) => ({ number, bytes: each }));
  }

  next(): PlannedRequest | undefined {
    const request = this.#all[this.#at];
    this.#at = this.#at + 1 === this.#all.length ? 0 : this.#at + 1;
    return request;
  }
}
