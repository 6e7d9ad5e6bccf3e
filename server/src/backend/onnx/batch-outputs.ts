/** Deals the rows of the model's outputs out to the requests of a batch, as views of them. Pure. */
import { ServerError } from "../../core/server-error.ts";
import { byteSize, elementCount, type Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";
import { type ScatteredOutput, scatterOutput } from "./ragged-batch.ts";

const LENGTH_BYTES = 4;
const NONE_SCATTERED: ReadonlyMap<string, ScatteredOutput> = new Map();

/**
 * The outputs of each request, in the order of `requests`.
 * @throws ServerError when an output has fewer rows than the batch
 */
export function splitOutputs(
  requests: readonly BackendRequest[],
  outputs: readonly Tensor[],
  hasBatchDimension: boolean,
  scattered: ReadonlyMap<string, ScatteredOutput> = NONE_SCATTERED,
): Tensor[][] {
  const [first] = requests;
  if (scattered.size === 0 && first !== undefined && requests.length === 1) {
    const isWhole = !hasBatchDimension || outputs.every(({ shape }) => shape[0] === first.batchSize);
    if (isWhole) return [wantedOf(first, outputs)];
  }
  const shares = requests.map((): Tensor[] => []);
  for (const output of outputs) {
    const rule = scattered.get(output.name);
    if (rule !== undefined) dealOut(requests, scatterOutput(output, rule, requests), shares);
    else if (hasBatchDimension) splitOutput(requests, output, shares);
    else dealOut(requests, [output], shares);
  }
  return shares;
}

function dealOut(requests: readonly BackendRequest[], parts: readonly Tensor[], shares: Tensor[][]): void {
  for (const [index, part] of parts.entries()) {
    if (requests[index]?.outputNames.includes(part.name) === true) shares[index]?.push(part);
  }
}

function wantedOf(request: BackendRequest, outputs: readonly Tensor[]): Tensor[] {
  return outputs.filter(({ name }) => request.outputNames.includes(name));
}

function splitOutput(requests: readonly BackendRequest[], output: Tensor, shares: Tensor[][]): void {
  const totalRows = requests.reduce((sum, { batchSize }) => sum + batchSize, 0);
  const rows = output.shape[0] ?? 0;
  if (rows < totalRows) {
    const text = `failed to split the output tensor '${output.name}' in responses: expected batch size of at least ${totalRows} in model output, got ${rows}`;
    throw new ServerError("invalid_argument", text, { reason: "BACKEND" });
  }
  let offset = 0;
  for (const [index, request] of requests.entries()) {
    const shape = [request.batchSize, ...output.shape.slice(1)];
    const end = endOf(output, shape, offset);
    if (request.outputNames.includes(output.name)) {
      // The usual case of one request that wants every row needs no view.
      const isWhole = offset === 0 && end === output.data.byteLength;
      shares[index]?.push({ ...output, shape, data: isWhole ? output.data : output.data.subarray(offset, end) });
    }
    offset = end;
  }
}

/** End of the elements of a share that begins at `offset`. */
function endOf(output: Tensor, shape: readonly number[], offset: number): number {
  const size = byteSize(output.datatype, shape);
  if (size !== undefined) return offset + size;
  const view = new DataView(output.data.buffer, output.data.byteOffset, output.data.byteLength);
  let end = offset;
  for (let count = elementCount(shape); count > 0; count--) end += LENGTH_BYTES + view.getUint32(end, true);
  return end;
}
