/** Computes the key that two requests must share to be batched together. Pure. */
import type { InferRequest } from "../../core/infer-request.ts";
import type { ModelSignature } from "../../core/model-signature.ts";

/**
 * A function from request to key, made once per model: "" for all when nothing can differ. Inputs with free dimensions
 * must agree in shape; a model with optional inputs needs the same set of them.
 */
export function batchKeyOf(signature: ModelSignature): (request: InferRequest) => string {
  const inputs = [...signature.inputs.values()];
  const hasOptional = inputs.some((input) => input.optional);
  const free = new Set(inputs.filter((input) => !input.allowRaggedBatch && input.dims.includes(-1)).map((i) => i.name));
  if (!hasOptional && free.size === 0) return () => "";
  return (request) => {
    const parts = request.inputs.flatMap(({ name, shape }) => {
      if (free.has(name)) return [`${name}:${shape.slice(1).join("x")}`];
      return hasOptional ? [name] : [];
    });
    return parts.sort().join(";");
  };
}
