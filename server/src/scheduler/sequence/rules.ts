/** Validates sequence flags of a request. Source: Triton's sequence extension; the error texts are Triton's. Pure. */

import type { InferRequest } from "../../core/infer-request.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { expectCorrelationId, requestPrefix } from "../../core/validate-request.ts";
import type { CorrelationControl } from "./controls.ts";

/** @throws ServerError with the first rule broken */
export function checkSequenceRequest(
  request: InferRequest,
  batchSize: number,
  modelName: string,
  correlation: CorrelationControl | undefined,
  needsId = true,
): void {
  const { id } = request.sequence;
  if (typeof id === "string") expectCorrelationId(id);
  const isNone = id === "" || id === 0n;
  if (!isNone && correlation !== undefined) checkType(request, id, modelName, correlation);
  if (batchSize !== 1) {
    throw invalidArgument(
      `inference request to model '${modelName}' must specify batch-size 1 due to requirements of sequence batcher`,
    );
  }
  if (isNone && needsId) {
    throw invalidArgument(
      `inference request to model '${modelName}' must specify a non-zero or non-empty correlation ID`,
    );
  }
}

export function startMissing(id: bigint | string, modelName: string): ServerError {
  return invalidArgument(
    `inference request for sequence ${id} to model '${modelName}' must specify the START flag on the first request of the sequence`,
  );
}

/** The error for all requests of a sequence whose wait for a slot timed out. */
export function backlogTimeout(): ServerError {
  const text = "timeout of the corresponding sequence has been expired";
  return new ServerError("unavailable", text, { reason: "REJECTED" });
}

function checkType(
  request: InferRequest,
  id: bigint | string,
  modelName: string,
  { name, datatype }: CorrelationControl,
): void {
  const given = typeof id === "string" ? "BYTES" : "UINT64";
  if ((given === "BYTES") === (datatype === "BYTES")) return;
  throw invalidArgument(
    `${requestPrefix(request)}sequence batching control '${name}' data-type is '${given}', but model '${modelName}' expects '${datatype}'`,
  );
}
