/** Joins the inputs of a batch's requests into the model's tensors. A single request is not copied. Pure. */
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ValueInfo } from "../../native/onnxruntime/info.ts";
import type { BackendRequest } from "../backend.ts";
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

function joinInput(first: Tensor, requests: readonly BackendRequest[]): Tensor {
  const parts = requests.map(({ request }) => partOf(request.inputs, first));
  let rows = 0;
  let byteLength = 0;
  for (const { shape, data } of parts) {
    rows += shape[0] ?? 0;
    byteLength += data.byteLength;
  }
  const joined = Buffer.allocUnsafe(byteLength);
  let offset = 0;
  for (const { data } of parts) {
    joined.set(data, offset);
    offset += data.byteLength;
  }
  return { ...first, shape: [rows, ...first.shape.slice(1)], data: joined };
}

/** The scheduler promises equal inputs; a request that breaks the promise must not read another's memory. */
function partOf(inputs: readonly Tensor[], first: Tensor): Tensor {
  const part = inputs.find(({ name }) => name === first.name);
  const fits =
    part !== undefined &&
    part.datatype === first.datatype &&
    part.shape.length === first.shape.length &&
    part.shape.every((dim, axis) => axis === 0 || dim === first.shape[axis]);
  if (fits) return part;
  throw new ServerError("internal", `requests of one batch have different inputs '${first.name}'`, {
    reason: "BACKEND",
  });
}
