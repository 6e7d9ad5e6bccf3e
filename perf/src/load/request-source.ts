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
  if (requests.kind === "bytes") return new Listed(requests.requests, index, count);
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

/** Each request once; a thread takes every `count`-th. */
class Listed implements RequestSource {
  readonly #requests: readonly Uint8Array[];
  readonly #count: number;
  #next: number;

  constructor(requests: readonly Uint8Array[], index: number, count: number) {
    this.#requests = requests;
    this.#count = count;
    this.#next = index;
  }

  next(_client: number, asked?: number): PlannedRequest | undefined {
    const number = asked ?? this.#next;
    const bytes = this.#requests[number];
    if (bytes === undefined) return undefined;
    if (asked === undefined) this.#next += this.#count;
    return { number, bytes };
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
