/**
 * From the JSON of an infer request and the bytes after it to tensors and options (KServe V2, HTTP/REST; Triton's
 * binary data extension). Checks the rules of the HTTP protocol; `ServedModel.infer` checks the tensors against the
 * model for every protocol.
 */
import {
  type Datatype,
  hasJsonForm,
  isDatatype,
  type JsonInferInput,
  type JsonInferOutput,
  type JsonInferRequest,
  type JsonParameters,
  type JsonShallow,
} from "@nereid/wire";
import { NO_PARAMETERS, NO_SEQUENCE, type ParameterValue, type SequenceInfo } from "../../../core/infer-request.ts";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import { byteSize, type Tensor } from "../../../core/tensor.ts";
import type { RegionPart, RequestMemory } from "../../request-memory.ts";
import {
  accessError,
  expectBoolean,
  expectMember,
  expectString,
  expectUnsigned,
  jsonError,
  parameterValue,
} from "../json/json-access.ts";
import { BINARY_FORM, type DecodedInfer, type HttpOutputForm, JSON_FORM, NO_FORMS } from "./http-infer-request.ts";

const MAX_ELEMENTS = 2n ** 63n - 1n;

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
  const id = json.id === undefined ? "" : expectString(json.id, "Unable to parse 'id': ");
  const options = decodeParameters(json.parameters);
  const inputs = decodeInputs(json.inputs, context);
  const { outputs, forms } = decodeOutputs(json.outputs, context.memory);
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
  return expectString(value, "Unable to parse 'sequence_id': ");
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

function decodeInputs(json: JsonInferRequest["inputs"], context: DecodeContext): Tensor[] {
  const list = expectMember(json as JsonShallow | undefined, "inputs");
  if (!Array.isArray(list)) throw accessError("Unable to parse 'inputs': ", "non-array as array");
  const inputs: Tensor[] = [];
  let offset = 0;
  for (const input of list as readonly JsonInferInput[]) {
    const tensor = decodeInput(input, context, offset);
    inputs.push(tensor);
    if (isBinary(input)) offset += tensor.data.length;
  }
  if (offset !== context.tail.length) {
    throw invalidArgument(`unexpected additional input data for model '${context.modelName}'`);
  }
  return inputs;
}

function decodeInput(input: JsonInferInput, context: DecodeContext, offset: number): Tensor {
  const name = expectString(expectMember(input.name, "name") as JsonShallow, "Unable to parse 'name': ");
  const type = expectString(expectMember(input.datatype, "datatype") as JsonShallow, "Unable to parse 'datatype': ");
  if (input.shape === undefined) expectMember(undefined, "shape");
  if (typeof input.shape === "string") throw accessError("Unable to parse 'shape': ", input.shape);
  const shape = input.shape ?? [];
  if (!isDatatype(type)) throw invalidArgument(`invalid datatype for input ${name}`);
  expectShape(name, shape);
  const parameters = input.parameters instanceof Map ? input.parameters : undefined;
  expectOneSource(input.hasData, parameters);
  if (input.hasData) return jsonTensor(input, { name, datatype: type, shape }, context);
  if (parameters?.has("shared_memory_region")) {
    return regionTensor({ name, datatype: type, shape }, regionPart(parameters), context);
  }
  const size = expectUnsigned(parameters?.get("binary_data_size"), "Unable to parse 'binary_data_size': ");
  return { name, datatype: type, shape, data: takeBinary(name, Number(size), context, offset) };
}

/** Dimensions beyond 2^53 are not exact here, but the product of such a shape is too large all the same. */
function expectShape(name: string, shape: readonly number[]): void {
  let count = 1;
  for (const dim of shape) count *= dim;
  if (Number.isSafeInteger(count)) return;
  const text = `invalid shape for input '${name}': shape [${shape.join(",")}]`;
  if (shape.some((dim) => dim > Number(MAX_ELEMENTS))) {
    throw invalidArgument(`${text} contains one or more invalid dimensions`);
  }
  throw invalidArgument(`${text} causes total element count to exceed maximum size of ${MAX_ELEMENTS}`);
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

/** Without an offset the part begins with the region, without a size it is empty. */
function regionPart(parameters: ReadonlyMap<string, JsonShallow>): RegionPart {
  const number = (name: string): bigint =>
    parameters.has(name) ? BigInt(expectUnsigned(parameters.get(name), `Unable to parse '${name}': `)) : 0n;
  return {
    region: expectString(parameters.get("shared_memory_region"), "Unable to parse 'shared_memory_region': "),
    offset: number("shared_memory_offset"),
    byteSize: number("shared_memory_byte_size"),
  };
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

function jsonTensor(input: JsonInferInput, head: TensorHead, context: DecodeContext): Tensor {
  expectJsonForm(head.datatype, head.name);
  const wanted = byteSize(head.datatype, head.shape);
  if (wanted !== undefined) expectJsonSize(head.name, wanted, context.maxInputBytes);
  const { tensor } = input;
  if (tensor === undefined) throw accessError("Unable to parse 'data': ", "non-array as array");
  if (tensor.error !== undefined) throw tensorError(head.datatype, tensor.error);
  if (wanted === undefined) expectJsonSize(head.name, tensor.data.length, context.maxInputBytes);
  else expectCount(tensor.count, head.shape);
  return { name: head.name, datatype: head.datatype, shape: head.shape, data: tensor.data };
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

function expectJsonSize(name: string, numBytes: number, maxInputBytes: number): void {
  if (numBytes <= maxInputBytes) return;
  throw invalidArgument(
    `JSON input '${name}' has a byte_size (${numBytes} bytes) that exceeds the maximum allowed value of ${maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
  );
}

function expectCount(count: number, shape: readonly number[]): void {
  // A tensor without dimensions is refused by the model, in words of its own.
  if (shape.length === 0) return;
  let wanted = 1;
  for (const dim of shape) wanted *= dim;
  if (count > wanted) throw jsonError("Unable to parse 'data': Shape does not match true shape of 'data' field");
  if (count < wanted) throw jsonError("Failed to parse 'data' field: shape does not match true shape");
}

interface DecodedOutputs {
  readonly outputs: readonly string[];
  readonly forms: ReadonlyMap<string, HttpOutputForm>;
}

const ALL_OUTPUTS: DecodedOutputs = { outputs: [], forms: NO_FORMS };

function decodeOutputs(json: JsonInferRequest["outputs"], memory: RequestMemory): DecodedOutputs {
  if (json === undefined) return ALL_OUTPUTS;
  if (!Array.isArray(json)) throw accessError("Unable to parse 'outputs': ", "non-array as array");
  if (json.length === 0) return ALL_OUTPUTS;
  const outputs: string[] = [];
  const forms = new Map<string, HttpOutputForm>();
  for (const output of json as readonly JsonInferOutput[]) {
    const name = expectString(expectMember(output.name, "name") as JsonShallow, "Unable to parse 'name': ");
    outputs.push(name);
    if (!forms.has(name)) forms.set(name, decodeForm(output.parameters, memory));
  }
  return { outputs, forms };
}

/** A listed output is JSON unless it says otherwise itself, whatever the request as a whole wants. */
function decodeForm(parameters: JsonParameters, memory: RequestMemory): HttpOutputForm {
  if (!(parameters instanceof Map)) return JSON_FORM;
  const binary = parameters.get("binary_data");
  const isBinary = binary !== undefined && formOf(binary, "binary_data").isBinary;
  if (parameters.has("shared_memory_region")) {
    if (parameters.has("classification")) throw notBoth("classification");
    if (isBinary) throw notBoth("binary_data");
    return { isBinary, numClasses: 0, target: memory.target(regionPart(parameters)) };
  }
  const classes = parameters.get("classification");
  if (classes === undefined) return isBinary ? BINARY_FORM : JSON_FORM;
  return { isBinary, numClasses: Number(expectUnsigned(classes, "Unable to set 'classification': ")) };
}

function notBoth(other: string): ServerError {
  return invalidArgument(`Output can't set both 'shared_memory_region' and '${other}'`);
}
