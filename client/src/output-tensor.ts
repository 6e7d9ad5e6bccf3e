/**
 * Outputs of a result, by the datatype of their elements. Source: Open Inference Protocol, "Tensor Data Types".
 */
import type { Datatype } from "@nereid/wire";
import type { OutputElements } from "./tensor.ts";

export interface OutputOf<D extends Datatype> {
  readonly name: string;
  readonly datatype: D;
  readonly shape: readonly number[];
  /** Empty when the output lies in shared memory. */
  readonly data: OutputElements[D];
  /** Region of shared memory that holds the elements instead. */
  readonly region?: string | undefined;
}

/** An output of any datatype: `datatype` tells the type of `data`. */
export type OutputTensor = { [D in Datatype]: OutputOf<D> }[Datatype];
