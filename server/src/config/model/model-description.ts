/**
 * A model's own description, as read by its backend. Result type of `Backend.describe`, so that config/ need not know
 * backends.
 */
import type { ConfigDataType } from "../../core/model-config.ts";

export interface DescribedModel {
  readonly inputs: readonly TensorDescription[];
  readonly outputs: readonly TensorDescription[];
  /** The first dimension of every tensor is dynamic. */
  readonly canBatch: boolean;
  /** Values chosen by the model's code, in place of derived ones. */
  readonly maxBatchSize?: number;
  readonly dynamicBatching?: boolean;
  readonly decoupled?: boolean;
  /** True: adds missing tensors to the configuration. False: a configuration that names some must name all. */
  readonly addsTensors?: boolean;
}

export interface TensorDescription {
  readonly name: string;
  readonly dataType: ConfigDataType;
  /** Full shape, including the batch dimension when the model can batch; -1: dynamic. */
  readonly dims: readonly number[];
  readonly optional?: boolean;
}
