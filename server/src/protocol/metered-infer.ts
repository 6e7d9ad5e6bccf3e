/**
 * Requests of the inference protocol that count for an API key: tokens are reserved from their inputs, and those that
 * engines count are settled when the responses end.
 * Source: own design.
 */
import type { InferRequest } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ServedModel } from "../core/model-server.ts";
import type { Tensor } from "../core/tensor.ts";
import { firstInteger } from "../text-model/responses.ts";
import { INPUT_NAMES } from "../text-model/tensor-names.ts";
import type { CallAccess } from "./call-access.ts";

type Infers = Pick<ServedModel, "infer">;

/** The model as the caller may use it. Without a key it is the model itself. @throws AccessRefusal limited or exhausted */
export function meteredModel(model: Infers, access: CallAccess | undefined, inputs: readonly Tensor[]): Infers {
  if (access === undefined) return model;
  const lease = access.reserve(tokenBound(inputs));
  const settle = (): void => lease.settle(access.counted);
  return {
    infer(request: InferRequest): AsyncIterable<InferResponse> {
      try {
        return new MeteredResponses(model.infer(request)[Symbol.asyncIterator](), settle);
      } catch (error) {
        settle();
        throw error;
      }
    },
  };
}

/** Most tokens of a request, as far as its inputs tell: 0 for a model that is no language model. */
function tokenBound(inputs: readonly Tensor[]): number {
  let bound = 0;
  for (const tensor of inputs) {
    const numRows = Math.max(tensor.shape[0] ?? 1, 1);
    if (INPUT_NAMES.tokens.includes(tensor.name)) bound += tensor.shape.reduce((size, dim) => size * dim, 1);
    else if (INPUT_NAMES.maxTokens.includes(tensor.name)) bound += numRows * Math.max(firstInteger(tensor) ?? 0, 0);
  }
  return bound;
}

class MeteredResponses implements AsyncIterableIterator<InferResponse> {
  readonly #responses: AsyncIterator<InferResponse>;
  readonly #settle: () => void;

  constructor(responses: AsyncIterator<InferResponse>, settle: () => void) {
    this.#responses = responses;
    this.#settle = settle;
  }

  async next(): Promise<IteratorResult<InferResponse>> {
    try {
      const step = await this.#responses.next();
      if (step.done === true || step.value.final) this.#settle();
      return step;
    } catch (error) {
      this.#settle();
      throw error;
    }
  }

  async return(): Promise<IteratorResult<InferResponse>> {
    this.#settle();
    await this.#responses.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
