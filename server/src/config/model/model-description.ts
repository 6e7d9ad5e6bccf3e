/** What a backend read from the model itself. The shape that `Backend.describe` answers with, so that config/ need not know backends. */
import type { ConfigDataType } from "../../core/model-config.ts";

export interface DescribedModel {
  readonly inputs: readonly DescribedTensor[];
  readonly outputs: readonly DescribedTensor[];
  /** First dimension of every tensor is free. */
  readonly canBatch: boolean;
  /** What the model's own code chose, in place of what would be guessed. */
  readonly maxBatchSize?: number;
  readonly dynamicBatching?: boolean;
  readonly decoupled?: boolean;
  /** True: tensors that the configuration lacks are added to it. Else a configuration that names some must name all. */
  readonly addsTensors?: boolean;
}

export interface DescribedTensor {
  readonly name: string;
  readonly dataType: ConfigDataType;
  /** Full shape, batch dimension included when the model can batch; -1 = free. */
  readonly dims: readonly number[];
  readonly optional?: boolean;
}
