/**
 * Reverses `reshape`: from the shape of the model's output to the configured one (model_config.proto,
 * ModelTensorReshape). Pure.
 */
import type { ModelSignature } from "../core/model-signature.ts";
import type { Tensor } from "../core/tensor.ts";

export function clientShape(output: Tensor, signature: ModelSignature): Tensor {
  const expected = signature.outputs.get(output.name);
  if (expected?.reshape === undefined) return output;
  const skip = signature.maxBatchSize > 0 ? 1 : 0;
  const free = expected.reshape.flatMap((dim, i) => (dim === -1 ? [output.shape[i + skip] ?? 1] : []));
  let next = 0;
  const inner = expected.dims.map((dim) => (dim === -1 ? (free[next++] ?? 1) : dim));
  return { ...output, shape: skip === 1 ? [output.shape[0] ?? 1, ...inner] : inner };
}
