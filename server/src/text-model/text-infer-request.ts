/** The `InferRequest` of one generation. It can be cancelled by the call and by the reader of its text. */
import { Cancellation } from "../core/cancellation.ts";
import {
  type InferRequest,
  NO_PARAMETERS,
  NO_SEQUENCE,
  type ParameterValue,
  type RequestOrigin,
  type SequenceInfo,
} from "../core/infer-request.ts";
import type { RequestTrace } from "../core/request-trace.ts";
import type { Tensor } from "../core/tensor.ts";
import type { CallFacts } from "./text-request.ts";

export interface TextInferParts {
  readonly modelName: string;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly priority: number;
}

export class TextInferRequest implements InferRequest, RequestOrigin {
  readonly modelName: string;
  readonly modelVersion = "";
  readonly id: string;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue> = NO_PARAMETERS;
  readonly sequence: SequenceInfo = NO_SEQUENCE;
  readonly priority: number;
  readonly timeoutUs = 0;
  readonly arrivalMs: number;
  readonly trace: RequestTrace | undefined;
  readonly isLast = true;
  readonly #call: CallFacts;
  readonly #own = new Cancellation();
  #isLinked = false;

  constructor(parts: TextInferParts, call: CallFacts) {
    this.modelName = parts.modelName;
    this.id = call.id;
    this.inputs = parts.inputs;
    this.outputs = parts.outputs;
    this.priority = parts.priority;
    this.arrivalMs = call.arrivalMs;
    this.trace = call.trace;
    this.#call = call;
  }

  get signal(): AbortSignal {
    if (!this.#isLinked) {
      this.#isLinked = true;
      follow(this.#call, this.#own);
    }
    return this.#own.signal;
  }

  get isCancelled(): boolean {
    return this.#own.isCancelled || this.#call.isCancelled;
  }

  /** A client's own request is its own origin. */
  get origin(): RequestOrigin {
    return this;
  }

  get key(): object {
    return this;
  }

  cancel(): void {
    this.#own.cancel();
  }
}

function follow(call: CallFacts, own: Cancellation): void {
  if (call.cancellation !== undefined) call.cancellation.lead(own);
  else if (call.signal.aborted) own.cancel();
  else call.signal.addEventListener("abort", () => own.cancel(), { once: true });
}
