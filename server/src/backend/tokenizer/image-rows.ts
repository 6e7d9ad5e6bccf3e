/** The rows that an encoder made of images, as the table of a prompt: which row of the request has which images. Pure. */
import type { FixedDatatype } from "@nereid/wire";
import { narrowToFp16, widenFp16 } from "../../core/fp16.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { findInput, intValues } from "./tensor-values.ts";

export const VISUAL_TOKENS = "VISUAL_TOKENS";
const VISUAL_LENGTHS = "VISUAL_LENGTHS";

export interface ImageRows {
  /** Rows of each image. */
  readonly lengths: readonly number[];
}

/**
 * Rows of each image, for each of `numRows` prompts. The tensor is [rows, width] of one image or [images, rows, width],
 * behind a batch dimension where the model batches; VISUAL_LENGTHS splits the rows of images that have different numbers.
 * Undefined: no images.
 */
export function readImageRows(request: InferRequest, isBatching: boolean, numRows: number): ImageRows[] | undefined {
  const tensor = findInput(request, VISUAL_TOKENS);
  if (tensor === undefined || tensor.data.length === 0) return undefined;
  const own = isBatching ? tensor.shape.slice(1) : tensor.shape;
  const lengths = findInput(request, VISUAL_LENGTHS);
  if (lengths !== undefined) return givenLengths(intValues(lengths), own, numRows);
  if (own.length !== 2 && own.length !== 3) throw wrongShape(tensor);
  const [numImages, length] = own.length === 3 ? [own[0] ?? 0, own[1] ?? 0] : [1, own[0] ?? 0];
  return Array.from({ length: numRows }, () => ({ lengths: new Array<number>(numImages).fill(length) }));
}

function givenLengths(values: Int32Array, own: readonly number[], numRows: number): ImageRows[] {
  const perPrompt = values.length / numRows;
  const total = own.slice(0, -1).reduce((product, dim) => product * dim, 1);
  return Array.from({ length: numRows }, (_, row) => {
    const lengths = [...values.subarray(row * perPrompt, (row + 1) * perPrompt)];
    const sum = lengths.reduce((all, length) => all + length, 0);
    if (sum === total && lengths.every((length) => length > 0)) return { lengths };
    const text = `input '${VISUAL_LENGTHS}' says [${lengths.join(", ")}] rows, input '${VISUAL_TOKENS}' has ${total}`;
    throw invalidArgument(text);
  });
}

/** The same rows as the input of an engine: [rows, width] for each prompt, in the datatype that it takes. */
export function promptTable(
  request: InferRequest,
  isBatching: boolean,
  output: { readonly name: string; readonly datatype: FixedDatatype },
): Tensor | undefined {
  const tensor = findInput(request, VISUAL_TOKENS);
  if (tensor === undefined || tensor.data.length === 0) return undefined;
  const [batch, own] = isBatching ? [tensor.shape.slice(0, 1), tensor.shape.slice(1)] : [[], tensor.shape];
  const numRows = own.slice(0, -1).reduce((product, dim) => product * dim, 1);
  const shape = [...batch, numRows, own.at(-1) ?? 0];
  return { ...output, shape, data: converted(tensor, output.datatype) };
}

function converted({ datatype, data }: Tensor, wanted: FixedDatatype): Uint8Array {
  if (datatype === wanted) return data;
  const { buffer } = new Uint8Array(data); // which begins at an even address
  if (datatype === "FP32" && wanted === "FP16") return new Uint8Array(narrowToFp16(new Float32Array(buffer)).buffer);
  if (datatype === "FP16" && wanted === "FP32") return new Uint8Array(widenFp16(new Uint16Array(buffer)).buffer);
  throw new ServerError("unsupported", `input '${VISUAL_TOKENS}' of ${datatype} can not become ${wanted}`);
}

function wrongShape({ shape }: Tensor): ServerError {
  const text = `input '${VISUAL_TOKENS}' has shape [${shape.join(", ")}], expected [rows, width] or [images, rows, width] for each prompt`;
  return invalidArgument(text);
}
