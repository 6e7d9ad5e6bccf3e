/** The batch dimension of a tensor between models that batch and models that do not (Triton documentation, "Ensemble Models"). */
import type { ModelSignature } from "../../core/model-signature.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Adds a batch dimension of 1 for a batching model, or removes it for one that does not batch. */
export function fitBatch(tensor: Tensor, batches: boolean, rank: number): Tensor {
  const { shape } = tensor;
  if (batches && shape.length === rank) return { ...tensor, shape: [1, ...shape] };
  if (!batches && shape.length === rank + 1 && shape[0] === 1) return { ...tensor, shape: shape.slice(1) };
  return tensor;
}

/**
 * A tensor as output of the ensemble: before the reshape to the client's shape, which has dimensions of its own. A model that batches
 * as the ensemble does has given its batch dimension or left it out on purpose, as Python models may.
 */
export function fitOutput(
  tensor: Tensor,
  { maxBatchSize, outputs }: ModelSignature,
  name: string,
  producerBatches: boolean,
): Tensor {
  if (producerBatches === maxBatchSize > 0) return tensor;
  const output = outputs.get(name);
  return fitBatch(tensor, maxBatchSize > 0, (output?.reshape ?? output?.dims)?.length ?? 0);
}
