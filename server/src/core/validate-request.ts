/**
 * Validates a request against its model, for every protocol and for model-to-model calls. Checks names, datatypes,
 * shapes and sizes, not values. Error texts are Triton's, because clients match on them. Pure.
 */
import { elementSize } from "@nereid/wire";
import { expectBytesElements } from "./bytes-tensor.ts";
import type { InferRequest } from "./infer-request.ts";
import { MAX_CORRELATION_ID_BYTES } from "./limits.ts";
import type { ExpectedInput, ModelSignature } from "./model-signature.ts";
import { invalidArgument, ServerError } from "./server-error.ts";
import { elementCount, type Tensor } from "./tensor.ts";

const BATCH_NOTE =
  "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size.";

/** Results of the validation. */
export interface ValidatedRequest {
  /** Inputs with the shapes for the backend. The same array when nothing is reshaped. */
  readonly inputs: readonly Tensor[];
  /** Rows: the first dimension of the inputs, 1 when the model does not batch. */
  readonly batchSize: number;
}

/**
 * @throws ServerError invalid_argument with the text of the first broken rule. Inputs are checked last to first, like
 * Triton, because clients compare the texts
 */
export function validateRequest(request: InferRequest, signature: ModelSignature): ValidatedRequest {
  const { inputs } = request;
  expectNames(request, signature);
  const batchSize = signature.maxBatchSize > 0 ? batchSizeOf(request, signature) : 1;
  let changed: Tensor[] | undefined;
  for (let i = inputs.length - 1; i >= 0; i -= 1) {
    const input = inputs[i] as Tensor;
    const expected = signature.inputs.get(input.name) as ExpectedInput; // checked by expectNames
    expectTensor(request, signature, input, expected);
    const isEmptyBatch = signature.maxBatchSize > 0 && input.shape[0] === 0;
    if (expected.reshape === undefined && input.datatype === expected.datatype && !isEmptyBatch) continue;
    changed ??= [...inputs];
    // A batch of zero was validated as one row, and counts as one from here on.
    const rows = isEmptyBatch ? [1, ...input.shape.slice(1)] : input.shape;
    const shape = reshapedShape(rows, expected, signature);
    changed[i] = { name: input.name, datatype: expected.datatype, shape, data: input.data };
  }
  return { inputs: changed ?? inputs, batchSize };
}

/** Each byte of UTF-8 counts as a character, as in a string of C++. @throws ServerError for an id of a sequence that is too long */
export function expectCorrelationId(id: string): void {
  if (Buffer.byteLength(id) <= MAX_CORRELATION_ID_BYTES) return;
  const text = `string correlation ID cannot be longer than ${MAX_CORRELATION_ID_BYTES} characters`;
  throw new ServerError("unsupported", text);
}

/** Prefix of every refusal of the core. */
export function requestPrefix(request: Pick<InferRequest, "id">): string {
  return `[request id: ${request.id === "" ? "<id_unknown>" : request.id}] `;
}

/** The names that a request gives, before the model is asked about them. */
export interface RequestNames {
  readonly id: string;
  readonly inputs: readonly { readonly name: string }[];
  readonly outputs: readonly string[];
}

/** @throws ServerError for a tensor that is named twice */
export function expectDistinctNames(request: RequestNames): void {
  const { inputs, outputs } = request;
  for (let i = 1; i < inputs.length; i += 1) {
    const { name } = inputs[i] as { readonly name: string };
    for (let j = 0; j < i; j += 1) {
      if (inputs[j]?.name === name) refuse(request, `input '${name}' already exists in request`);
    }
  }
  for (let i = 1; i < outputs.length; i += 1) {
    const name = outputs[i] as string;
    if (outputs.indexOf(name) < i) refuse(request, `output '${name}' already exists in request`);
  }
}

function expectNames(request: InferRequest, signature: ModelSignature): void {
  expectDistinctNames(request);
  const { inputs, outputs } = request;
  for (let i = 0; i < outputs.length; i += 1) {
    const name = outputs[i] as string;
    if (!signature.outputs.has(name)) {
      throw invalidArgument(`unexpected inference output '${name}' for model '${signature.modelName}'`);
    }
  }
  expectInputCount(request, signature);
  for (const { name } of inputs) {
    if (signature.inputs.has(name)) continue;
    throw invalidArgument(`unexpected inference input '${name}' for model '${signature.modelName}'`);
  }
}

function expectInputCount(request: InferRequest, signature: ModelSignature): void {
  const got = request.inputs.length;
  const { numRequiredInputs, modelName } = signature;
  if (got >= numRequiredInputs && got <= signature.inputs.size) return;
  const given = new Set(request.inputs.map((input) => input.name));
  const required = [...signature.inputs.values()].filter((input) => !input.optional && !given.has(input.name));
  const expectation =
    numRequiredInputs === signature.inputs.size
      ? `expected ${numRequiredInputs} inputs but got ${got} inputs`
      : `expected number of inputs between ${numRequiredInputs} and ${signature.inputs.size} but got ${got} inputs`;
  const list = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(",");
  const missing = required.length === 0 ? " ]" : `[${list(required.map((input) => input.name))}]`; // the spelling error is Triton's
  refuse(
    request,
    `${expectation} for model '${modelName}'. Got input(s) [${list([...given])}], but missing required input(s) ${missing}. Please provide all required input(s).`,
  );
}

function batchSizeOf(request: InferRequest, signature: ModelSignature): number {
  let batchSize: number | undefined;
  for (let i = request.inputs.length - 1; i >= 0; i -= 1) {
    const { name, shape } = request.inputs[i] as Tensor;
    const rows = shape[0];
    if (rows === undefined) {
      refuse(request, `input '${name}' has no shape but model requires batch dimension for '${signature.modelName}'`);
    }
    // A row count of zero is compared, too: beside another count it would give the model a wrong size.
    batchSize ??= rows;
    if (rows !== batchSize) {
      refuse(request, `input '${name}' batch size does not match other inputs for '${signature.modelName}'`);
    }
  }
  if (batchSize !== undefined && batchSize > signature.maxBatchSize) {
    refuse(request, `inference request batch-size must be <= ${signature.maxBatchSize} for '${signature.modelName}'`);
  }
  return Math.max(1, batchSize ?? 0);
}

function expectTensor(request: InferRequest, signature: ModelSignature, input: Tensor, expected: ExpectedInput): void {
  const where = `inference input '${input.name}'`;
  if (input.datatype !== expected.datatype && input.datatype !== expected.alias) {
    refuse(
      request,
      `${where} data-type is '${input.datatype}', but model '${signature.modelName}' expects '${expected.datatype}'`,
    );
  }
  expectShape(request, signature, input, expected);
  const { modelName } = signature;
  const zeroBatch = signature.maxBatchSize > 0 && input.shape[0] === 0;
  const count = elementCount(zeroBatch ? input.shape.slice(1) : input.shape);
  if (input.datatype === "BYTES") {
    try {
      expectBytesElements(input.data, count, `${where} for model '${modelName}'`);
    } catch (error) {
      refuse(request, ServerError.from(error).message);
    }
    return;
  }
  const size = count * elementSize(input.datatype);
  if (input.data.length !== size) {
    refuse(
      request,
      `input byte size mismatch for input '${input.name}' for model '${modelName}'. Expected ${size}, got ${input.data.length}`,
    );
  }
}

function expectShape(request: InferRequest, signature: ModelSignature, input: Tensor, expected: ExpectedInput): void {
  const skip = signature.maxBatchSize > 0 ? 1 : 0;
  const { shape, name } = input;
  const { dims } = expected;
  let matches = shape.length === dims.length + skip;
  for (let i = 0; i < dims.length && matches; i += 1) {
    const dim = shape[i + skip] as number;
    if (dim < 0) {
      refuse(
        request,
        `All input dimensions should be specified for input '${name}' for model '${signature.modelName}', got [${shape.join(",")}]`,
      );
    }
    matches = dims[i] === -1 || dims[i] === dim;
  }
  if (matches) return;
  const wanted = skip === 1 ? [-1, ...dims] : dims;
  const note = skip === 1 ? BATCH_NOTE : "";
  refuse(
    request,
    `unexpected shape for input '${name}' for model '${signature.modelName}'. Expected [${wanted.join(",")}], got [${shape.join(",")}]. ${note}`,
  );
}

/** The configured reshape, if any; its dynamic dimensions are taken, in order, from the request. */
function reshapedShape(
  shape: readonly number[],
  expected: ExpectedInput,
  signature: ModelSignature,
): readonly number[] {
  const { dims, reshape } = expected;
  if (reshape === undefined) return shape;
  const skip = signature.maxBatchSize > 0 ? 1 : 0;
  const free = dims.flatMap((dim, i) => (dim === -1 ? [shape[i + skip] as number] : []));
  let next = 0;
  const inner = reshape.map((dim) => (dim === -1 ? (free[next++] ?? 1) : dim));
  return skip === 1 ? [shape[0] as number, ...inner] : inner;
}

function refuse(request: Pick<InferRequest, "id">, message: string): never {
  throw invalidArgument(requestPrefix(request) + message);
}
