/**
 * The raw request: a body that is one tensor, with datatype and shape taken from the model (Triton's binary data
 * extension, "Raw Binary Request").
 */
import { elementSize } from "@nereid/wire";
import { packBytesElements } from "../../../core/bytes-tensor.ts";
import type { ServedModel, TensorMetadata } from "../../../core/model-server.ts";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import { BINARY_FORM, bareInfer, type DecodedInfer } from "./http-infer-request.ts";

/** @throws ServerError when the model's inputs leave open what the bytes are */
export function decodeRawInfer(body: Buffer, served: ServedModel): DecodedInfer {
  const [input] = served.inputs.values();
  if (input === undefined || served.inputs.size !== 1) {
    throw refused(
      `Raw request must only have 1 input (found 1) to be deduced but got ${served.inputs.size} inputs in '${served.name}' model configuration`,
    );
  }
  const isBytes = input.datatype === "BYTES";
  const shape = isBytes ? bytesShape(input, served) : fixedShape(input, served, body.length);
  const data = isBytes ? packBytesElements([body]) : body;
  return bareInfer([{ name: input.name, datatype: input.datatype, shape, data }], BINARY_FORM);
}

/** Raw requests carry no id. */
function refused(message: string): ServerError {
  return invalidArgument(`[request id: <id_unknown>] ${message}`);
}

function isBatching(served: ServedModel): boolean {
  return served.config.max_batch_size > 0;
}

function ownDims(input: TensorMetadata, served: ServedModel): readonly number[] {
  return isBatching(served) ? input.shape.slice(1) : input.shape;
}

/** The whole body is one string. */
function bytesShape(input: TensorMetadata, served: ServedModel): number[] {
  const dims = ownDims(input, served);
  expectOneOpen(dims, input.name);
  if (dims.every((dim) => dim === 1)) return isBatching(served) ? [1, ...dims] : [...dims];
  throw refused(`For BYTE datatype raw input '${input.name}', the model must have input shape [1]`);
}

/** @returns the number of variable dimensions, at most one */
function expectOneOpen(dims: readonly number[], name: string): number {
  const numOpen = dims.filter((dim) => dim === -1).length;
  if (numOpen <= 1) return numOpen;
  throw refused(
    `The shape of the raw input '${name}' can not be deduced because there are more than one variable-sized dimension`,
  );
}

function fixedShape(input: TensorMetadata, served: ServedModel, numBytes: number): number[] {
  const dims = ownDims(input, served);
  const size = input.datatype === "BYTES" ? 1 : elementSize(input.datatype);
  const numOpen = expectOneOpen(dims, input.name);
  const known = dims.reduce((product, dim) => (dim === -1 ? product : product * dim), size);
  const open = Math.floor(numBytes / known);
  const expected = numOpen === 1 ? known * open : known;
  if (expected !== numBytes) {
    throw refused(
      `input byte size mismatch for input 'raw_input' for model '${served.name}'. Expected ${expected}, got ${numBytes}`,
    );
  }
  const shape = dims.map((dim) => (dim === -1 ? open : dim));
  return isBatching(served) ? [1, ...shape] : shape;
}
