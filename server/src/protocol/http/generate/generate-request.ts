/**
 * From the JSON of a generate request to tensors and parameters (Triton's generate extension): a member named like an
 * input is that tensor, any other is a parameter. Each tensor is read directly in its datatype.
 */
import {
  elementSize,
  hasJsonForm,
  type JsonDatatype,
  type JsonReader,
  type JsonShallow,
  type JsonTensor,
  type JsonTensorReader,
  readShallow,
} from "@nereid/wire";
import { NO_SEQUENCE, type ParameterValue } from "../../../core/infer-request.ts";
import type { ServedModel, TensorMetadata } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { requestPrefix } from "../../../core/validate-request.ts";
import { expectElements, expectJsonForm, tensorError } from "../infer/decode-infer.ts";
import { type DecodedInfer, JSON_FORM, NO_FORMS } from "../infer/http-infer-request.ts";
import { accessError, expectText, jsonError, parameterValue } from "../json/json-access.ts";

const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const NESTED = "Converting keyword: 'parameters': ";

export interface GenerateContext {
  readonly served: ServedModel;
  readonly reader: JsonReader;
  readonly tensors: JsonTensorReader;
  readonly maxInputBytes: number;
}

/**
 * Reads the text that the reader stands at. An error of meaning is held back until the text has been read to its end,
 * because broken JSON counts more. @throws ServerError @throws JsonSyntaxError @throws JsonLimitError
 */
export function* decodeGenerate(context: GenerateContext): Generator<undefined, DecodedInfer> {
  const { reader } = context;
  const request = new GenerateRequest(context);
  if (reader.peekRoot() === OPEN_OBJECT) yield* request.readRoot();
  else {
    yield* readShallow(reader);
    request.refuse(jsonError("attempt to get members for non-object"));
  }
  reader.finish();
  return request.finish();
}

class GenerateRequest {
  readonly #context: GenerateContext;
  readonly #inputs = new Map<string, Tensor>();
  readonly #parameters = new Map<string, ParameterValue>();
  #id = "";
  #numBytes = 0;
  /** Counts before every other, wherever the id is. */
  #idError: ServerError | undefined;
  /** Made at the end, where the id is known. */
  #error: (() => ServerError) | undefined;

  constructor(context: GenerateContext) {
    this.#context = context;
  }

  refuse(error: ServerError): void {
    this.#error ??= () => error;
  }

  finish(): DecodedInfer {
    if (this.#idError !== undefined) throw this.#idError;
    if (this.#error !== undefined) throw this.#error();
    return {
      id: this.#id,
      inputs: [...this.#inputs.values()],
      outputs: [],
      parameters: this.#parameters,
      sequence: NO_SEQUENCE,
      priority: 0,
      timeoutUs: 0,
      forms: NO_FORMS,
      defaultForm: JSON_FORM,
    };
  }

  *readRoot(): Generator<undefined, void> {
    const { reader } = this.#context;
    const seen = new Set<string>();
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      const name = reader.memberName();
      if (seen.has(name)) yield* this.#again(name, "");
      else if (name === "parameters") yield* this.#nested();
      else yield* this.#member(name, "");
      seen.add(name);
      reader.countItem();
    }
  }

  *#nested(): Generator<undefined, void> {
    const { reader, served } = this.#context;
    if (served.inputs.has("parameters")) {
      const text = "Keyword 'parameters' for nested schema also given as input tensor name";
      this.refuse(invalidArgument(text));
    }
    if (reader.peek() !== OPEN_OBJECT) {
      yield* readShallow(reader);
      this.refuse(accessError("Expected JSON object for keyword: 'parameters': ", "non-object as object"));
      return;
    }
    const seen = new Set<string>();
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      const name = reader.memberName();
      if (seen.has(name)) yield* this.#again(name, NESTED);
      else yield* this.#member(name, NESTED);
      seen.add(name);
      reader.countItem();
    }
  }

  *#member(name: string, context: string): Generator<undefined, void> {
    const input = this.#context.served.inputs.get(name);
    if (input !== undefined) {
      yield* this.#tensor(input, context);
      return;
    }
    const value = yield* readShallow(this.#context.reader);
    if (name === "id" && context === "") this.#readId(value);
    this.#try(() => this.#parameters.set(name, parameterValue(name, value)), context);
  }

  #readId(value: JsonShallow): void {
    try {
      this.#id = expectText(value, "Unable to parse 'id': ");
    } catch (error) {
      this.#idError = ServerError.from(error);
    }
  }

  /** A name that was there before: the first value counts, but an input cannot be given twice. */
  *#again(name: string, context: string): Generator<undefined, void> {
    yield* readShallow(this.#context.reader);
    if (this.#inputs.has(name)) this.#refuseTwice(name, context);
  }

  #refuseTwice(name: string, context: string): void {
    this.#error ??= () =>
      invalidArgument(`${context}${requestPrefix({ id: this.#id })}input '${name}' already exists in request`);
  }

  *#tensor(input: TensorMetadata, context: string): Generator<undefined, void> {
    const { datatype } = input;
    // Without a form in JSON the elements are counted all the same: a wrong shape is refused first.
    const tensor = yield* this.#read(hasJsonForm(datatype) ? datatype : "FP32");
    this.#try(() => this.#add(input, tensor, context), context);
  }

  *#read(datatype: JsonDatatype): Generator<undefined, JsonTensor> {
    const { reader, tensors } = this.#context;
    const byte = reader.peek();
    if (byte === OPEN_ARRAY) return yield* tensors.read(datatype, Number.POSITIVE_INFINITY);
    if (byte !== OPEN_OBJECT) return tensors.readOne(datatype, byte);
    yield* readShallow(reader);
    // An object is of the wrong type for every datatype: as a tensor it says so itself.
    return tensors.refused(datatype);
  }

  /** In Triton's order: strings, size, shape, other elements. */
  #add(input: TensorMetadata, tensor: JsonTensor, context: string): void {
    const { name, datatype } = input;
    const isText = datatype === "BYTES";
    if (isText && tensor.error !== undefined) throw tensorError(datatype, tensor.error);
    const numBytes = isText ? tensor.data.length : tensor.outerCount * elementSize(datatype);
    this.#expectSize(name, numBytes);
    const shape = numBytes === 0 ? [] : generateShape(input, tensor.outerCount);
    if (numBytes > 0 && !isText) {
      expectJsonForm(datatype, name);
      expectElements(tensor, tensor.outerCount);
    }
    if (this.#inputs.has(name)) this.#refuseTwice(name, context);
    this.#inputs.set(name, { name, datatype, shape, data: numBytes === 0 ? new Uint8Array(0) : tensor.data });
  }

  #expectSize(name: string, numBytes: number): void {
    const { maxInputBytes } = this.#context;
    const numBefore = this.#numBytes;
    this.#numBytes += numBytes;
    if (this.#numBytes <= maxInputBytes) return;
    throw invalidArgument(
      `request size of ${numBefore} bytes with input '${name}' of size ${numBytes} bytes exceeds the maximum allowed input size of ${maxInputBytes}. Use --http-max-input-size to increase the limit.`,
    );
  }

  /** Holds the first error back, with the place where it was found in front. */
  #try(action: () => void, context: string): void {
    try {
      action();
    } catch (error) {
      const found = ServerError.from(error);
      this.refuse(context === "" ? found : new ServerError(found.code, context + found.message));
    }
  }
}

/**
 * Fills the model's shape with `count` elements from the right. Fixed dimensions divide the count, the innermost open
 * one takes the rest, and further open ones become 1.
 * @throws ServerError when something is left over
 */
export function generateShape(input: TensorMetadata, count: number): number[] {
  const shape = [...input.shape];
  let rest = count;
  let openAt = -1;
  let fits = true;
  for (let i = shape.length - 1; i >= 0; i--) {
    const dim = shape[i] ?? 1;
    if (dim === -1) {
      if (openAt < 0) openAt = i;
      shape[i] = 1;
    } else if (dim === 0 || rest % dim !== 0) {
      fits = false;
    } else {
      rest /= dim;
    }
  }
  if (openAt >= 0) {
    shape[openAt] = rest;
    rest = 1;
  }
  if (fits && rest === 1) return shape;
  throw invalidArgument(`The schema can not convert input '${input.name}' to tensor with proper shape`);
}
