/** Joins the inputs of a batch's requests into the model's tensors. A single request is not copied. Pure. */
import type { Tensor } from "../../core/tensor.ts";
import type { ValueInfo } from "../../native/onnxruntime/info.ts";
import type { BackendRequest } from "../backend.ts";
import { joinInput } from "../native-run/batch-rows.ts";
import { computedInputs, layEndToEnd, type RaggedPlan } from "./ragged-batch.ts";

/** `values`: what the model may be given, by name. @throws ServerError when the requests do not fit each other */
export function joinInputs(
  requests: readonly BackendRequest[],
  values: ReadonlyMap<string, ValueInfo>,
  ragged: RaggedPlan,
): readonly Tensor[] {
  const [first] = requests;
  const inputs = first?.request.inputs ?? [];
  const isAlone = requests.length === 1;
  const joined = inputs.map((tensor) => {
    if (ragged.flat.has(tensor.name)) return layEndToEnd(tensor, requests);
    return isAlone ? asModelSees(tensor, values) : joinInput(tensor, requests);
  });
  return ragged.computed.length === 0 ? joined : [...joined, ...computedInputs(ragged, requests)];
}

/** The model's scalars have no dimension, while a configuration must give them one. */
function asModelSees(tensor: Tensor, values: ReadonlyMap<string, ValueInfo>): Tensor {
  if (tensor.shape.length === 0 || values.get(tensor.name)?.dims.length !== 0) return tensor;
  return { ...tensor, shape: [] };
}
