/**
 * Reads a KServe V2 inference response: JSON (Open Inference Protocol, "Inference Response JSON Object"), then the
 * binary outputs (Triton's binary data extension). Every size is checked against the shape and the body before it is
 * used. Knows no HTTP.
 */
import { type BytesFault, checkBytesElements } from "../bytes.ts";
import { type Datatype, elementSize, isDatatype } from "../datatype.ts";
import { type JsonInferTensor, JsonInferTensorReader, type JsonParameters } from "./infer-tensor.ts";
import { type JsonLimits, JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./reader.ts";
import { FEW_SLOTS, StringTable } from "./string-table.ts";
import { type JsonScalar, type JsonShallow, readShallow } from "./value.ts";

export interface V2InferResponse {
  /** "" when the response has none. */
  readonly id: string;
  readonly modelName: string;
  readonly modelVersion: string;
  readonly parameters: ReadonlyMap<string, JsonScalar>;
  readonly outputs: readonly V2Output[];
}

export interface V2Output {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Little-endian, of the size of the shape, possibly unaligned: a view of the body if it was binary. Empty with `region`. */
  readonly data: Uint8Array;
  /** Shared memory that holds the data instead (Triton's shared memory extension). */
  readonly region?: string;
}

/** The response is no object of the protocol, or its sizes contradict each other. */
export class V2ResponseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "V2ResponseError";
  }
}

/** Nesting of JSON; the protocol needs few levels. */
const MAX_DEPTH = 100;
/** Members and elements that are no tensor data. */
const MAX_ITEMS = 1_000_000;
const LIMITS: JsonLimits = { maxDepth: MAX_DEPTH, maxItems: MAX_ITEMS };

/**
 * Reads `body`, whose first `jsonLength` bytes are the JSON; all of it when there is no binary part. `regions`: outputs by name
 * that the request wanted in shared memory; the response has nothing but their shapes.
 * @throws V2ResponseError @throws JsonSyntaxError @throws JsonLimitError
 */
export function readV2Response(
  body: Uint8Array,
  jsonLength: number = body.length,
  regions: ReadonlyMap<string, string> = new Map(),
): V2InferResponse {
  if (!Number.isSafeInteger(jsonLength) || jsonLength < 0 || jsonLength > body.length) {
    throw new V2ResponseError(`the JSON is said to have ${jsonLength} bytes, the body has ${body.length}`);
  }
  const members = readMembers(body.subarray(0, jsonLength));
  const tail = new Tail(body.subarray(jsonLength));
  const outputs = members.outputs.map((output) => checkOutput(output, tail, regions));
  tail.finish();
  return {
    id: typeof members.id === "string" ? members.id : "",
    modelName: expectString(members.modelName, "model_name"),
    modelVersion: typeof members.modelVersion === "string" ? members.modelVersion : "",
    parameters: scalarsOf(members.parameters),
    outputs,
  };
}

/** Splits the binary part into outputs, in their order (Triton's binary data extension). */
class Tail {
  readonly #bytes: Uint8Array;
  #offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(size: number, name: string): Uint8Array {
    const left = this.#bytes.length - this.#offset;
    if (size > left) throw new V2ResponseError(`output '${name}': ${size} binary bytes announced, ${left} are left`);
    const start = this.#offset;
    this.#offset += size;
    return this.#bytes.subarray(start, this.#offset);
  }

  finish(): void {
    const left = this.#bytes.length - this.#offset;
    if (left > 0) throw new V2ResponseError(`${left} bytes follow the last output`);
  }
}

interface Members {
  id: JsonShallow | undefined;
  modelName: JsonShallow | undefined;
  modelVersion: JsonShallow | undefined;
  parameters: JsonParameters;
  outputs: readonly JsonInferTensor[];
}

function readMembers(json: Uint8Array): Members {
  const reader = new JsonReader(LIMITS, new StringTable(FEW_SLOTS));
  const entries = new JsonInferTensorReader(reader);
  const members: Members = {
    id: undefined,
    modelName: undefined,
    modelVersion: undefined,
    parameters: undefined,
    outputs: [],
  };
  reader.reset(json);
  if (reader.peek() !== OPEN_OBJECT) throw new V2ResponseError("the response is no JSON object");
  reader.open();
  for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
    reader.countItem();
    readMember(reader, entries, members);
  }
  reader.finish();
  return members;
}

function readMember(reader: JsonReader, entries: JsonInferTensorReader, members: Members): void {
  const name = reader.memberName();
  switch (name) {
    case "outputs":
      members.outputs = readOutputs(reader, entries);
      break;
    case "parameters":
      members.parameters = finished(entries.parameters());
      break;
    case "id":
      members.id = finished(readShallow(reader));
      break;
    case "model_name":
      members.modelName = finished(readShallow(reader));
      break;
    case "model_version":
      members.modelVersion = finished(readShallow(reader));
      break;
    default:
      finished(readShallow(reader));
  }
}

function readOutputs(reader: JsonReader, entries: JsonInferTensorReader): readonly JsonInferTensor[] {
  if (reader.peek() !== OPEN_ARRAY) throw new V2ResponseError("'outputs' is no array");
  const outputs: JsonInferTensor[] = [];
  reader.open();
  for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
    outputs.push(finished(entries.read()));
    reader.countItem();
  }
  return outputs;
}

/** Runs a reader to its end, without pauses. */
function finished<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

function checkOutput(entry: JsonInferTensor, tail: Tail, regions: ReadonlyMap<string, string>): V2Output {
  const name = expectString(entry.name, "name of an output");
  const datatype = expectString(entry.datatype, `datatype of output '${name}'`);
  if (!isDatatype(datatype)) throw new V2ResponseError(`output '${name}': unknown datatype '${datatype}'`);
  const { shape } = entry;
  if (!isShape(shape)) throw new V2ResponseError(`output '${name}': the shape is no array of sizes`);
  const count = shape.reduce((product, dim) => product * dim, 1);
  if (!Number.isSafeInteger(count)) {
    throw new V2ResponseError(`output '${name}': shape [${shape.join(",")}] has too many elements`);
  }
  const region = regions.get(name);
  if (region !== undefined && entry.tensor === undefined && !isBinary(entry))
    return { name, datatype, shape, data: new Uint8Array(0), region };
  const data = dataOf(entry, tail, name, count);
  expectSize(data, datatype, count, name);
  return { name, datatype, shape, data };
}

function isShape(shape: JsonInferTensor["shape"]): shape is readonly number[] {
  return Array.isArray(shape);
}

function isBinary({ parameters }: JsonInferTensor): boolean {
  return isMap(parameters) && parameters.has("binary_data_size");
}

function dataOf(entry: JsonInferTensor, tail: Tail, name: string, count: number): Uint8Array {
  const size = isMap(entry.parameters) ? entry.parameters.get("binary_data_size") : undefined;
  if (size !== undefined) {
    if (typeof size !== "number" || size < 0) {
      throw new V2ResponseError(`output '${name}': binary_data_size is no size`);
    }
    return tail.take(size, name);
  }
  const { tensor } = entry;
  if (tensor === undefined) throw new V2ResponseError(`output '${name}' has no data`);
  if (tensor.error !== undefined) throw new V2ResponseError(`output '${name}': ${tensor.error}`);
  if (tensor.count !== count) {
    throw new V2ResponseError(`output '${name}': the shape has ${count} elements, the data ${tensor.count}`);
  }
  return tensor.data;
}

function expectSize(data: Uint8Array, datatype: Datatype, count: number, name: string): void {
  if (datatype === "BYTES") {
    const fault = checkBytesElements(data, count);
    if (fault !== undefined) throw new V2ResponseError(`output '${name}': ${describe(fault, count)}`);
    return;
  }
  const size = count * elementSize(datatype);
  if (data.length !== size) {
    throw new V2ResponseError(`output '${name}': the shape takes ${size} bytes, the data has ${data.length}`);
  }
}

function describe(fault: BytesFault, expected: number): string {
  switch (fault.kind) {
    case "excess":
      return `more than the ${expected} elements of the shape`;
    case "missing":
      return `${fault.count} elements, the shape has ${expected}`;
    case "cut length":
      return `${fault.left} bytes are left where a length of 4 bytes was expected`;
    case "cut element":
      return `an element of ${fault.length} bytes was announced, ${fault.left} are left`;
  }
}

function expectString(value: JsonShallow | undefined, what: string): string {
  if (typeof value !== "string") throw new V2ResponseError(`the ${what} is no string`);
  return value;
}

/** Parameters are scalars (Open Inference Protocol, "Parameters"); others are left out. */
function scalarsOf(parameters: JsonParameters): ReadonlyMap<string, JsonScalar> {
  const scalars = new Map<string, JsonScalar>();
  if (!isMap(parameters)) return scalars;
  for (const [name, value] of parameters) if (typeof value !== "symbol") scalars.set(name, value);
  return scalars;
}

function isMap(parameters: JsonParameters): parameters is ReadonlyMap<string, JsonShallow> {
  return parameters instanceof Map;
}
