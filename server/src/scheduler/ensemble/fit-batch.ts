/** The batch dimension of a tensor between models that batch and models that do not (Triton documentation, "Ensemble Models"). */
import type { Tensor } from "../../core/tensor.ts";

/** Adds a batch dimension of 1 for a batching model, or removes it for one that does not batch. */
export function fitBatch(tensor: Tensor, batches: boolean, rank: number): Tensor {
  const { shape } = tensor;
  if (batches && shape.length === rank) return { ...tensor, shape: [1, ...shape] };
  if (!batches && shape.length === rank + 1 && shape[0] === 1) return { ...tensor, shape: shape.slice(1) };
  return tensor;
}
