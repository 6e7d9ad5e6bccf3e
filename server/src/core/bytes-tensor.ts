/**
 * Validates BYTES tensors of requests and models. The layout itself is in wire/ (KServe V2, binary tensor data
 * extension).
 */
import { type BytesFault, checkBytesElements, splitBytesElements } from "@nereid/wire";
import { invalidArgument } from "./server-error.ts";
import { elementCount, type Tensor } from "./tensor.ts";

export { packBytesElements } from "@nereid/wire";

/** Checks that `data` holds exactly the elements that the shape says. `where` names tensor and model for the message. */
export function expectBytesElements(data: Uint8Array, expected: number, where: string): void {
  const fault = checkBytesElements(data, expected);
  if (fault !== undefined) throw invalidArgument(describe(fault, expected, where));
}

/** The elements of a checked BYTES tensor, as views. @throws ServerError when the framing is broken */
export function bytesElements(tensor: Tensor): Uint8Array[] {
  expectBytesElements(tensor.data, elementCount(tensor.shape), `tensor '${tensor.name}'`);
  return splitBytesElements(tensor.data);
}

function describe(fault: BytesFault, expected: number, where: string): string {
  switch (fault.kind) {
    case "excess":
      return `unexpected number of string elements ${fault.count} for ${where}, expecting ${expected}`;
    case "missing":
      return `expected ${expected} string elements for ${where}, got ${fault.count}`;
    case "cut length":
      return `incomplete string length indicator for ${where}, expecting 4 bytes but only ${fault.left} bytes available. Please make sure the string length indicator is in one buffer.`;
    case "cut element":
      return `incomplete string data for ${where}, expecting string of length ${fault.length} but only ${fault.left} bytes available`;
  }
}
