/**
 * From the JSON of an infer request and the bytes after it to tensors and options (KServe V2, HTTP/REST; Triton's
 * binary data extension). Checks the rules of the HTTP protocol; `ServedModel.infer` checks the tensors against the
 * model for every protocol.
 */

import {
  type Datatype,
  elementSize,
  type FixedDatatype,
  hasJsonForm,
  isDatatype,
  type JsonInferInput,
  type JsonInferOutput,
  type JsonInferRequest,
  type JsonParameters,
  type JsonShallow,
  type JsonTensor,
} from "@nereid/wire";
import { NO_PARAMETERS, NO_SEQUENCE, type ParameterValue, type SequenceInfo } from "../../../core/infer-request.ts";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import { INVALID_DATATYPE, type Tensor } from "../../../core/tensor.ts";
import { expectCorrelationId, requestPrefix } from "../../../core/validate-request.ts";
import type { RegionPart, RequestMemory } from "../../request-memory.ts";
import {
  accessError,
  expectBoolean,
  expectMember,
  expectText,
  expectUnsigned,
  jsonError,
  parameterValue,
} from "../json/json-access.ts";
import { BINARY_FORM, type DecodedInfer, type HttpOutputForm, JSON_FORM, NO_FORMS } from "./http-infer-request.ts";

const MAX_INT64 = 2n ** 63n - 1n;
const MAX_PLAIN_COUNT = 2 ** 40;

/** Context of decoding beside the JSON. */
export interface DecodeContext {
  readonly modelName: string;
  /** The body behind the JSON. */
  readonly tail: Uint8Array;
  readonly maxInputBytes: number;
  /** Regions of shared memory, held from here to the end of the request. */
  readonly memory: RequestMemory;
  /** Inputs in shared memory must not change while the request runs: its answer will be given to others. */
  readonly copiesRegions: boolean;
}

/** @throws ServerError with the protocol's text for the first thing wrong, in its order: id, parameters, inputs, outputs */
export function decodeInfer(json: JsonInferRequest, context: DecodeContext): DecodedInfer {
  const id = json.id === undefined ? "" : expectText(json.id, "Unable to parse 'id': ");
  const options = decodeParameters(json.parameters);
  const inputs = decodeInputs(json.inputs, id, context);
  const { outputs, forms } = decodeOutputs(json.outputs, id, context.memory);
  const { parameters, sequence, priority, timeoutUs, defaultForm } = options;
  return { id, inputs, outputs, parameters, sequence, priority, timeoutUs, forms, defaultForm };
}

type Options = Pick<DecodedInfer, "parameters" | "sequence" | "priority" | "timeoutUs" | "defaultForm">;

const NO_OPTIONS: Options = {
  parameters: NO_PARAMETERS,
  sequence: NO_SEQUENCE,
  priority: 0,
  timeoutUs: 0,
  defaultForm: JSON_FORM,
};

function decodeParameters(json: JsonParameters): Options {
  if (json === undefined) return NO_OPTIONS;
  if (!(json instanceof Map)) throw jsonError("failed to get request params.: attempt to get members for non-object");
  const options: MutableOptions = { ...NO_OPTIONS, parameters: new Map(), sequence: { ...NO_SEQUENCE } };
  for (const [name, value] of json as ReadonlyMap<string, JsonShallow>) decodeParameter(options, name, value);
  return options;
}

interface MutableOptions {
  readonly parameters: Map<string, ParameterValue>;
  readonly sequence: { -readonly [K in keyof SequenceInfo]: SequenceInfo[K] };
  priority: number;
  timeoutUs: number;
  defaultForm: HttpOutputForm;
}

function decodeParameter(options: MutableOptions, name: string, value: JsonShallow): void {
  const context = `Unable to parse '${name}': `;
  switch (name) {
    case "sequence_id":
      options.sequence.id = sequenceId(value);
      break;
    case "sequence_start":
      options.sequence.start = expectBoolean(value, context);
      break;
    case "sequence_end":
      options.sequence.end = expectBoolean(value, context);
      break;
    case "priority":
      options.priority = Number(expectUnsigned(value, context));
      break;
    case "timeout":
      options.timeoutUs = Number(expectUnsigned(value, context));
      break;
    case "binary_data_output":
      options.defaultForm = formOf(value, name);
      break;
    default:
      options.parameters.set(name, customParameter(name, value));
  }
}

function sequenceId(value: JsonShallow): bigint | string {
  if ((typeof value === "number" || typeof value === "bigint") && value >= 0) return BigInt(value);
  const text = expectText(value, "Unable to parse 'sequence_id': ");
  expectCorrelationId(text);
  return text;
}

function formOf(value: JsonShallow | undefined, name: string): HttpOutputForm {
  return expectBoolean(value, `Unable to parse '${name}': `) ? BINARY_FORM : JSON_FORM;
}

function customParameter(name: string, value: JsonShallow): ParameterValue {
  if (!name.startsWith("triton_")) return parameterValue(name, value);
  throw invalidArgument(
    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
  );
}

function decodeInputs(json: JsonInferRequest["inputs"], id: string, context: DecodeContext): Tensor[] {
  const list = expectMember(json as JsonShallow | undefined, "inputs");
  if (!Array.isArray(list)) throw accessError("Unable to parse 'inputs': ", "non-array as array");
  const inputs: Tensor[] = [];
  const names = new InputNames(id);
  let offset = 0;
  for (const input of list as readonly JsonInferInput[]) {
    const tensor = decodeInput(input, context, names, offset);
    inputs.push(tensor);
    if (isBinary(input)) offset += tensor.data.length;
  }
  if (offset !== context.tail.length) {
    throw invalidArgument(`unexpected additional input data for model '${context.modelName}'`);
  }
  return inputs;
}

function decodeInput(input: JsonInferInput, context: DecodeContext, names: InputNames, offset: number): Tensor {
  const parameters = input.parameters instanceof Map ? input.parameters : undefined;
  expectOneSource(input.hasData, parameters);
  const name = expectText(expectMember(input.name, "name"), "Unable to parse 'name': ");
  const type = expectText(expectMember(input.datatype, "datatype"), "Unable to parse 'datatype': ");
  if (input.shape === undefined) expectMember(undefined, "shape");
  if (typeof input.shape === "string") throw accessError("Unable to parse 'shape': ", input.shape);
  names.add(name);
  // The core refuses a datatype that it does not know, unless the JSON reader did so first.
  const head: TensorHead = { name, datatype: isDatatype(type) ? type : INVALID_DATATYPE, shape: input.shape ?? [] };
  if (parameters?.has("binary_data_size")) {
    const size = expectUnsigned(parameters.get("binary_data_size"), "Unable to parse 'binary_data_size': ");
    return { name, datatype: head.datatype, shape: head.shape, data: takeBinary(name, Number(size), context, offset) };
  }
  const part = regionPart(parameters);
  return part === undefined ? jsonTensor(input, head, context) : regionTensor(head, part, context);
}

/** Names of the inputs so far. */
class InputNames {
  readonly #id: string;
  readonly #names = new Set<string>();

  constructor(id: string) {
    this.#id = id;
  }

  /** @throws ServerError for a name that is there already */
  add(name: string): void {
    if (this.#names.has(name)) {
      throw invalidArgument(`${requestPrefix({ id: this.#id })}input '${name}' already exists in request`);
    }
    this.#names.add(name);
  }
}

function expectOneSource(hasData: boolean, parameters: ReadonlyMap<string, JsonShallow> | undefined): void {
  const isBinary = parameters?.has("binary_data_size") === true;
  const isShared = parameters?.has("shared_memory_region") === true;
  if (Number(hasData) + Number(isBinary) + Number(isShared) === 1) return;
  const found = [
    hasData ? "'data'" : "",
    isBinary ? "'binary_data_size'" : "",
    isShared ? "'shared_memory_region'" : "",
  ].filter((text) => text !== "");
  throw invalidArgument(
    `Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But ${found.length === 0 ? "no field is set" : `set ${found.join(" ")}`}`,
  );
}

/**
 * Undefined for a tensor that is in no region. Without an offset the part begins with the region, without a size it is empty.
 * Both numbers are read where there is no region, too.
 */
function regionPart(parameters: ReadonlyMap<string, JsonShallow> | undefined): RegionPart | undefined {
  if (parameters === undefined) return undefined;
  const name = parameters.get("shared_memory_region");
  const region = name === undefined ? undefined : expectText(name, "Unable to parse 'shared_memory_region': ");
  const number = (key: string): bigint =>
    parameters.has(key) ? BigInt(expectUnsigned(parameters.get(key), `Unable to parse '${key}': `)) : 0n;
  const offset = number("shared_memory_offset");
  const byteSize = number("shared_memory_byte_size");
  return region === undefined ? undefined : { region, offset, byteSize };
}

/** The client may write while the model reads. That must not move the borders of strings once they are checked. */
function regionTensor(head: TensorHead, part: RegionPart, context: DecodeContext): Tensor {
  const bytes = context.memory.bytes(part);
  const data = context.copiesRegions || head.datatype === "BYTES" ? bytes.slice() : bytes;
  return { name: head.name, datatype: head.datatype, shape: head.shape, data };
}

/** Whether its bytes are behind the JSON. */
function isBinary(input: JsonInferInput): boolean {
  return !input.hasData && !(input.parameters instanceof Map && input.parameters.has("shared_memory_region"));
}

function takeBinary(name: string, size: number, context: DecodeContext, offset: number): Uint8Array {
  const missing = size - (context.tail.length - offset);
  if (missing <= 0) return context.tail.subarray(offset, offset + size);
  throw invalidArgument(
    `unexpected size for input '${name}', expecting ${missing} additional bytes for model '${context.modelName}'`,
  );
}

type TensorHead = Omit<Tensor, "data">;

/** In Triton's order: the shape, the array, its size, its datatype, its elements. Fields one by one: a spread takes a microsecond. */
function jsonTensor(input: JsonInferInput, head: TensorHead, context: DecodeContext): Tensor {
  const { name, datatype, shape } = head;
  const count = countElements(name, shape, input.exactShape);
  if (count === 0n) return { name, datatype, shape, data: NO_DATA };
  const { tensor = NO_TENSOR } = input;
  if (!input.isDataArray) throw accessError("Unable to parse 'data': ", "non-array as array");
  if (datatype === INVALID_DATATYPE) throw invalidArgument(`invalid datatype for input ${name}`);
  if (datatype === "BYTES") {
    if (tensor.error !== undefined) throw tensorError(datatype, tensor.error);
    expectJsonSize(name, tensor.data.length, context.maxInputBytes);
    return { name, datatype, shape, data: tensor.data };
  }
  expectJsonSize(name, jsonBytes(name, count, datatype), context.maxInputBytes);
  expectJsonForm(datatype, name);
  return { name, datatype, shape, data: expectElements(tensor, Number(count)).data };
}

const NO_DATA = new Uint8Array(0);
const NO_TENSOR: JsonTensor = { data: NO_DATA, count: 0, outerCount: 0, error: undefined, errorAt: 0 };

/**
 * As Triton's GetElementCount: -1 for a shape with -1, 0 without dimensions. A number where it is far from every limit, as for nearly all
 * tensors: big integers take longer. @throws ServerError
 */
function countElements(name: string, shape: readonly number[], exact: readonly bigint[] | undefined): number | bigint {
  if (exact !== undefined) return countExactly(name, exact);
  let product = shape.length === 0 ? 0 : 1;
  for (const dim of shape) product *= dim;
  if (product > 0 && product <= MAX_PLAIN_COUNT) return product;
  return Number.isSafeInteger(product) ? BigInt(product) : countExactly(name, shape.map(BigInt));
}

function countExactly(name: string, dims: readonly bigint[]): bigint {
  let count = 1n;
  for (const dim of dims) {
    if (dim === 0n || dim === -1n) return dim;
    if (dim < 0n) throw wrongShape(name, dims, "contains one or more invalid dimensions");
    count *= dim;
    if (count > MAX_INT64) {
      throw wrongShape(name, dims, `causes total element count to exceed maximum size of ${MAX_INT64}`);
    }
  }
  return count;
}

function wrongShape(name: string, dims: readonly bigint[], what: string): ServerError {
  return invalidArgument(`invalid shape for input '${name}': shape [${dims.join(",")}] ${what}`);
}

/** Unsigned, so that a shape with -1 is beyond every limit. @throws ServerError */
function jsonBytes(name: string, count: number | bigint, datatype: FixedDatatype): number | bigint {
  if (typeof count === "number") return count * elementSize(datatype);
  const size = BigInt(elementSize(datatype));
  if (count * size <= MAX_INT64) return BigInt.asUintN(64, count * size);
  throw invalidArgument(
    `byte size overflow for input '${name}': element count (${count}) * data type size (${size}) exceeds maximum allowed size (${MAX_INT64})`,
  );
}

/** The first fault counts: an element too many, or one of a wrong type. @throws ServerError */
export function expectElements(tensor: JsonTensor, wanted: number): JsonTensor {
  const { count, error, errorAt } = tensor;
  if (error !== undefined && errorAt < wanted) throw accessError("Unable to parse 'data': ", error);
  if (error !== undefined || count > wanted) {
    throw jsonError("Unable to parse 'data': Shape does not match true shape of 'data' field");
  }
  if (count < wanted) throw jsonError("Failed to parse 'data' field: shape does not match true shape");
  return tensor;
}

/** @throws ServerError for the two datatypes that JSON cannot carry */
export function expectJsonForm(datatype: Datatype, input: string): void {
  if (hasJsonForm(datatype)) return;
  throw invalidArgument(
    `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${input}`,
  );
}

/** An element of the wrong type. */
export function tensorError(datatype: Datatype, error: string): ServerError {
  const context = datatype === "BYTES" ? "Unable to parse JSON bytes array: " : "Unable to parse 'data': ";
  return accessError(context, error);
}

function expectJsonSize(name: string, numBytes: number | bigint, maxInputBytes: number): void {
  if (numBytes <= maxInputBytes) return;
  throw invalidArgument(
    `JSON input '${name}' has a byte_size (${numBytes} bytes) that exceeds the maximum allowed value of ${maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
  );
}

interface DecodedOutputs {
  readonly outputs: readonly string[];
  readonly forms: ReadonlyMap<string, HttpOutputForm>;
}

const ALL_OUTPUTS: DecodedOutputs = { outputs: [], forms: NO_FORMS };

function decodeOutputs(json: JsonInferRequest["outputs"], id: string, memory: RequestMemory): DecodedOutputs {
  if (json === undefined) return ALL_OUTPUTS;
  if (!Array.isArray(json)) throw accessError("Unable to parse 'outputs': ", "non-array as array");
  if (json.length === 0) return ALL_OUTPUTS;
  const outputs: string[] = [];
  const forms = new Map<string, HttpOutputForm>();
  for (const { name: nameValue, parameters } of json as readonly JsonInferOutput[]) {
    const options = parameters instanceof Map ? parameters : undefined;
    if (options?.has("shared_memory_region")) expectNoOther(options);
    const name = expectText(expectMember(nameValue, "name"), "Unable to parse 'name': ");
    if (forms.has(name)) throw invalidArgument(`${requestPrefix({ id })}output '${name}' already exists in request`);
    outputs.push(name);
    forms.set(name, options === undefined ? JSON_FORM : decodeForm(options, memory));
  }
  return { outputs, forms };
}

function expectNoOther(options: ReadonlyMap<string, JsonShallow>): void {
  if (options.has("classification")) throw notBoth("classification");
  const binary = options.get("binary_data");
  if (binary !== undefined && expectBoolean(binary, "Unable to set 'binary_data': ")) throw notBoth("binary_data");
}

/** A listed output is JSON unless it says otherwise itself, whatever the request as a whole wants. */
function decodeForm(options: ReadonlyMap<string, JsonShallow>, memory: RequestMemory): HttpOutputForm {
  const classes = options.get("classification");
  const numClasses = classes === undefined ? 0 : Number(expectUnsigned(classes, "Unable to set 'classification': "));
  const part = regionPart(options);
  if (part !== undefined) return { isBinary: false, numClasses: 0, target: memory.target(part) };
  const binary = options.get("binary_data");
  const form = binary === undefined ? JSON_FORM : formOf(binary, "binary_data");
  return numClasses === 0 ? form : { isBinary: form.isBinary, numClasses };
}

function notBoth(other: string): ServerError {
  return invalidArgument(`Output can't set both 'shared_memory_region' and '${other}'`);
}
