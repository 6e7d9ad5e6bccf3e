/** Joins the rows of a batch's requests, and deals out those of its results. Pure. A single request is not copied. */
import { ServerError } from "../../core/server-error.ts";
import { byteSize, type Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";

/** The inputs of all requests, one after the other. @throws ServerError when the requests do not fit each other */
export function joinRequests(requests: readonly BackendRequest[]): readonly Tensor[] {
  const [first] = requests;
  const inputs = first?.request.inputs ?? [];
  return requests.length === 1 ? inputs : inputs.map((tensor) => joinInput(tensor, requests));
}

export function joinInput(first: Tensor, requests: readonly BackendRequest[]): Tensor {
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

/**
 * Each request's share of outputs with a batch dimension, as views of them; of no others, when it alone is there.
 * Datatypes have a fixed size. @throws ServerError when an output has another number of rows than the batch
 */
export function splitRows(requests: readonly BackendRequest[], outputs: readonly Tensor[]): Tensor[][] {
  const [first] = requests;
  if (first !== undefined && requests.length === 1) return [wantedOf(first, outputs)];
  const totalRows = requests.reduce((sum, { batchSize }) => sum + batchSize, 0);
  for (const { name, shape } of outputs) if (shape[0] !== totalRows) throw wrongRows(name, totalRows, shape);
  let firstRow = 0;
  return requests.map((request) => {
    const start = firstRow;
    firstRow += request.batchSize;
    return wantedOf(request, outputs).map((output) => rowsOf(output, start, request.batchSize));
  });
}

function rowsOf(output: Tensor, firstRow: number, numRows: number): Tensor {
  const row = output.shape.slice(1);
  const rowBytes = byteSize(output.datatype, row) ?? 0;
  const data = output.data.subarray(firstRow * rowBytes, (firstRow + numRows) * rowBytes);
  return { ...output, shape: [numRows, ...row], data };
}

function wantedOf({ outputNames }: BackendRequest, outputs: readonly Tensor[]): Tensor[] {
  return outputs.filter(({ name }) => outputNames.length === 0 || outputNames.includes(name));
}

function wrongRows(name: string, rows: number, shape: readonly number[]): ServerError {
  const text = `failed to split the output tensor '${name}' in responses: expected ${rows} rows, the model gave [${shape.join(",")}]`;
  return new ServerError("internal", text, { reason: "BACKEND" });
}
