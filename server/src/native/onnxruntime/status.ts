/** Converts ONNX Runtime statuses to exceptions. */
import type { OrtApi, Status } from "./api.ts";

/** A terminated run fails with this text and without a code of its own. */
const TERMINATED = "Exiting due to terminate flag";

export class OnnxRuntimeError extends Error {
  /** `OrtErrorCode`: 1 fail, 2 invalid argument, 3 no such file, 7 invalid protobuf, ... */
  readonly code: number;
  readonly isTermination: boolean;

  constructor(code: number, message: string) {
    super(withoutAddresses(message));
    this.name = "OnnxRuntimeError";
    this.code = code;
    this.isTermination = message.includes(TERMINATED);
  }
}

/** @throws OnnxRuntimeError when the call failed; frees the status */
export function check(api: OrtApi, status: Status): void {
  if (status === null) return;
  const code = api.GetErrorCode(status);
  const message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  throw new OnnxRuntimeError(code, message);
}

/** Removes addresses from messages: they say nothing about a client's request, and leak memory layout. */
function withoutAddresses(message: string): string {
  return message.replaceAll(/0x[0-9a-f]{6,16}\b/gi, "0x...");
}
