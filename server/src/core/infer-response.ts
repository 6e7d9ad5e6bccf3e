/** One answer to an `InferRequest`; decoupled models give 0..n of them, all others exactly one. */
import type { ParameterValue } from "./infer-request.ts";
import type { ServerError } from "./server-error.ts";
import type { Tensor } from "./tensor.ts";

export interface InferResponse {
  readonly modelName: string;
  /** The version that served, as text. */
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** In the order of the model, without those that were not asked for. */
  readonly outputs: readonly Tensor[];
  /** Set: an error in place of outputs on one response of a decoupled model; more may follow unless it is final. */
  readonly error?: ServerError | undefined;
  /** True on the last response of a request. A decoupled model may end with a final response without outputs. */
  readonly final: boolean;
  /** A final response that carries nothing (flag only): not shown to clients unless they asked for it. */
  readonly empty: boolean;
  /**
   * Set when the outputs lie in memory that their model would like to use again. To be called at most by the one who sends
   * the response to a client, when nobody will read the outputs any more; who does not know that leaves it to the garbage
   * collector.
   */
  readonly release?: (() => void) | undefined;
}
