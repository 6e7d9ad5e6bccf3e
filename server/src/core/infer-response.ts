/**
 * One response to an `InferRequest`; decoupled models give any number, all others exactly one (KServe V2, Inference
 * Response).
 */
import type { ParameterValue } from "./infer-request.ts";
import type { ServerError } from "./server-error.ts";
import type { Tensor } from "./tensor.ts";

export interface InferResponse {
  readonly modelName: string;
  /** The version that served, as text. */
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** In the model's order, without outputs that were not requested. */
  readonly outputs: readonly Tensor[];
  /** Set: an error in place of outputs on one response of a decoupled model; more may follow unless it is final. */
  readonly error?: ServerError | undefined;
  /** True on the last response of a request. A decoupled model may end with a final response without outputs. */
  readonly final: boolean;
  /** A final response without content (flag only): not shown to clients unless requested. */
  readonly empty: boolean;
  /**
   * Set when the model wants to reuse the output memory. The sender of the response may call it once, after the last
   * read. Otherwise the garbage collector handles it.
   */
  readonly release?: (() => void) | undefined;
}
