/**
 * From a response to the JSON and binary tail of an infer answer (KServe V2, HTTP/REST; Triton's binary data
 * extension). A generator, so that a large answer is written in slices; a small one never yields.
 */
import { hasJsonForm, type JsonDatatype, type JsonWriter, writeSmallTensorData, writeTensorData } from "@nereid/wire";
import type { ParameterValue } from "../../../core/infer-request.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import { byteSize, elementCount, type Tensor } from "../../../core/tensor.ts";
import { classify } from "../../classification.ts";
import { type RequestMemory, writeOutputInSlices } from "../../request-memory.ts";
import { MIN_OUTPUT_BYTES } from "../json/json-threads.ts";
import type { HttpOutputForm } from "./http-infer-request.ts";

export interface EncodedInfer {
  /** The JSON, then the binary outputs. */
  readonly body: readonly Uint8Array[];
  /** Bytes of the JSON when binary outputs follow, otherwise 0. */
  readonly headerLength: number;
}

/** How outputs are wanted: as listed, or in one way for all. */
export interface OutputForms {
  readonly forms: ReadonlyMap<string, HttpOutputForm>;
  readonly defaultForm: HttpOutputForm;
  /** Set when the request uses shared memory, which the answer must not point to. */
  readonly memory?: RequestMemory;
}

/** The elements of outputs as text, made elsewhere. */
export type WrittenOutputs = ReadonlyMap<Tensor, Uint8Array>;

interface WritableOutput {
  readonly tensor: Tensor;
  readonly datatype: JsonDatatype;
  readonly count: number;
}

/** Outputs that are wanted as JSON, of the size that they say, and large. */
export function writableOutputs(response: InferResponse, wanted: OutputForms): WritableOutput[] {
  const found: WritableOutput[] = [];
  for (const tensor of response.outputs) {
    const form = wanted.forms.get(tensor.name) ?? wanted.defaultForm;
    const isPlain = form.numClasses === 0 && form.target === undefined && !form.isBinary;
    const { datatype, data, shape } = tensor;
    if (!isPlain || !hasJsonForm(datatype) || data.length < MIN_OUTPUT_BYTES) continue;
    const expected = byteSize(datatype, shape);
    if (expected === undefined || expected === data.length)
      found.push({ tensor, datatype, count: elementCount(shape) });
  }
  return found;
}

/** @throws ServerError when an output cannot be given in the form wanted */
export function* encodeInfer(
  writer: JsonWriter,
  response: InferResponse,
  wanted: OutputForms,
  served: ServedModel,
  texts?: WrittenOutputs,
): Generator<undefined, EncodedInfer> {
  const tail: Uint8Array[] = [];
  const cuts: Cut[] = [];
  writer.begin();
  writeResponseHead(writer, response);
  writer.raw(',"outputs":[');
  for (let i = 0; i < response.outputs.length; i++) {
    const output = response.outputs[i];
    if (output === undefined) continue;
    if (i > 0) writer.byte(0x2c);
    const form = wanted.forms.get(output.name) ?? wanted.defaultForm;
    const tensor = form.numClasses === 0 ? output : classesOf(output, form.numClasses, served);
    if (form.target !== undefined) {
      yield* writeOutputInSlices(form.target, tensor);
      writeHead(writer, tensor);
      writer.byte(0x7d);
    } else if (form.isBinary) writeBinaryOutput(writer, wanted.memory?.detached(tensor) ?? tensor, tail);
    else yield* writeJsonOutput(writer, tensor, texts?.get(tensor), cuts);
  }
  writer.raw("]}");
  const header = withTexts(writer.finish(), cuts);
  const headerLength = tail.length === 0 ? 0 : header.reduce((sum, piece) => sum + piece.length, 0);
  return { body: [...header, ...tail], headerLength };
}

/** Position of a string in the JSON. */
interface Cut {
  readonly at: number;
  readonly text: Uint8Array;
}

function withTexts(json: Uint8Array, cuts: readonly Cut[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (const { at, text } of cuts) {
    pieces.push(json.subarray(from, at), text);
    from = at;
  }
  pieces.push(json.subarray(from));
  return pieces;
}

/** Everything before the outputs. */
function writeResponseHead(writer: JsonWriter, response: InferResponse): void {
  writer.byte(0x7b);
  if (response.id !== "") {
    writer.raw('"id":');
    writer.string(response.id);
    writer.byte(0x2c);
  }
  writer.raw('"model_name":');
  writer.string(response.modelName);
  writer.raw(',"model_version":');
  writer.string(response.modelVersion);
  if (response.parameters.size > 0) writeParameters(writer, response.parameters);
}

function classesOf(output: Tensor, numClasses: number, served: ServedModel): Tensor {
  return classify(output, numClasses, served.config.max_batch_size > 0, (name, index) => served.label(name, index));
}

function writeParameters(writer: JsonWriter, parameters: ReadonlyMap<string, ParameterValue>): void {
  writer.raw(',"parameters":{');
  let isFirst = true;
  for (const [name, value] of parameters) {
    if (!isFirst) writer.byte(0x2c);
    isFirst = false;
    writer.string(name);
    writer.byte(0x3a);
    writeParameter(writer, value);
  }
  writer.byte(0x7d);
}

export function writeParameter(writer: JsonWriter, value: ParameterValue): void {
  if (typeof value === "string") writer.string(value);
  else if (typeof value === "boolean") writer.raw(value ? "true" : "false");
  else if (typeof value === "number") writer.integer(value);
  else if (typeof value === "bigint") writer.bigint(value);
  else writer.double(value.double);
}

function writeHead(writer: JsonWriter, tensor: Tensor): void {
  writer.raw('{"name":');
  writer.string(tensor.name);
  writer.raw(',"datatype":"');
  writer.raw(tensor.datatype);
  writer.raw('","shape":[');
  for (let i = 0; i < tensor.shape.length; i++) {
    if (i > 0) writer.byte(0x2c);
    writer.integer(tensor.shape[i] ?? 0);
  }
  writer.byte(0x5d);
}

/** An empty output contributes its size and no bytes: alone it does not make the answer a binary one. */
function writeBinaryOutput(writer: JsonWriter, tensor: Tensor, tail: Uint8Array[]): void {
  writeHead(writer, tensor);
  writer.raw(',"parameters":{"binary_data_size":');
  writer.integer(tensor.data.length);
  writer.raw("}}");
  if (tensor.data.length > 0) tail.push(tensor.data);
}

function* writeJsonOutput(
  writer: JsonWriter,
  tensor: Tensor,
  text: Uint8Array | undefined,
  cuts: Cut[],
): Generator<undefined, void> {
  writeHead(writer, tensor);
  writer.raw(',"data":[');
  if (text === undefined) yield* writeElements(writer, tensor);
  else cuts.push({ at: writer.size, text });
  writer.raw("]}");
}

/** The elements of a tensor, without brackets. */
export function* writeElements(writer: JsonWriter, tensor: Tensor): Generator<undefined, void> {
  const { data, shape } = tensor;
  yield* writeTensorData(writer, expectWritable(tensor), data, elementCount(shape));
}

/** The same in one go, for tensors of at most `MAX_SMALL_BYTES`. */
export function writeSmallElements(writer: JsonWriter, tensor: Tensor, count: number): void {
  writeSmallTensorData(writer, expectWritable(tensor), tensor.data, count);
}

export const MAX_SMALL_BYTES = 4096;

/** @throws ServerError when the tensor has no JSON form, or another size than its shape says */
function expectWritable({ name, datatype, shape, data }: Tensor): JsonDatatype {
  if (!hasJsonForm(datatype)) {
    throw invalidArgument(
      `sending ${datatype} data via JSON is not supported. Please use the binary data format for output`,
    );
  }
  const expected = byteSize(datatype, shape);
  if (expected !== undefined && expected !== data.length) {
    throw new ServerError("internal", `output tensor shape does not match size of output for '${name}'`);
  }
  return datatype;
}
