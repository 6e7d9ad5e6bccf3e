/**
 * Ragged batches (Triton, docs/user_guide/ragged_batching.md): inputs of different sizes are concatenated in one
 * dimension. Further inputs tell the model where each begins, and its flat outputs are split again. The plan of a
 * configuration is made once; the rest are pure functions of a batch.
 */
import type { BatchInput, ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import { byteSize, elementCount, type Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";

export interface RaggedPlan {
  /** Shapes have the batch dimension in front. */
  readonly hasBatchDimension: boolean;
  /** Names of the inputs that are laid end to end. */
  readonly flat: ReadonlySet<string>;
  readonly computed: readonly BatchInput[];
  /** By output. */
  readonly scattered: ReadonlyMap<string, ScatteredOutput>;
}

export interface ScatteredOutput {
  /** The input whose shape fills the free dimensions. */
  readonly source: string;
  /** With the batch dimension in front when the model batches. */
  readonly dims: readonly number[];
}

export function raggedPlan(config: ModelConfig): RaggedPlan {
  const scattered = new Map<string, ScatteredOutput>();
  for (const { target_name, source_input } of config.batch_output) {
    for (const name of target_name) {
      const output = config.output.find((candidate) => candidate.name === name);
      const dims = output?.reshape?.shape ?? output?.dims ?? [];
      scattered.set(name, { source: source_input[0] ?? "", dims: config.max_batch_size > 0 ? [-1, ...dims] : dims });
    }
  }
  return {
    hasBatchDimension: config.max_batch_size > 0,
    flat: new Set(config.input.filter(({ allow_ragged_batch }) => allow_ragged_batch).map(({ name }) => name)),
    computed: config.batch_input,
    scattered,
  };
}

/** All requests' tensors of a name, end to end. */
export function layEndToEnd(first: Tensor, requests: readonly BackendRequest[]): Tensor {
  const parts = requests.map((request) => inputOf(request, first.name));
  const [only] = parts;
  let elements = 0;
  let byteLength = 0;
  for (const { datatype, shape, data } of parts) {
    if (datatype !== first.datatype) throw differing(first.name);
    elements += elementCount(shape);
    byteLength += data.byteLength;
  }
  if (parts.length === 1 && only !== undefined) return { ...only, shape: [elements] };
  const data = Buffer.allocUnsafe(byteLength);
  let offset = 0;
  for (const part of parts) {
    data.set(part.data, offset);
    offset += part.data.byteLength;
  }
  return { ...first, shape: [elements], data };
}

/** Tensors that the server adds to a batch. */
export function computedInputs(plan: RaggedPlan, requests: readonly BackendRequest[]): Tensor[] {
  return plan.computed.flatMap((input) => {
    const { values, shape } = computeInput(input, requests, plan.hasBatchDimension ? 1 : 0);
    const data = numbersOf(values, input.data_type);
    const datatype = input.data_type === "TYPE_FP32" ? "FP32" : "INT32";
    return input.target_name.map((name): Tensor => ({ name, datatype, shape, data }));
  });
}

function computeInput(
  { kind, source_input }: BatchInput,
  requests: readonly BackendRequest[],
  batchRank: number,
): { values: readonly number[]; shape: readonly number[] } {
  const [source = ""] = source_input;
  if (kind === "BATCH_ITEM_SHAPE" || kind === "BATCH_ITEM_SHAPE_FLATTEN") {
    const rows = requests.flatMap((request) => itemShapes(request, source, batchRank));
    const values = rows.flat();
    return { values, shape: kind === "BATCH_ITEM_SHAPE" ? [rows.length, rows[0]?.length ?? 0] : [values.length] };
  }
  const counts = requests.map((request) => elementCount(inputOf(request, source).shape));
  if (kind === "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE") {
    const most = Math.max(...counts);
    return { values: new Array<number>(most).fill(0), shape: [most] };
  }
  const values = kind === "BATCH_ELEMENT_COUNT" ? counts : runningSums(counts);
  if (kind === "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO") values.unshift(0);
  return { values, shape: [values.length] };
}

/** One shape for each row of the request, without its batch dimension. */
function itemShapes(request: BackendRequest, source: string, batchRank: number): (readonly number[])[] {
  const item = inputOf(request, source).shape.slice(batchRank);
  return Array.from({ length: request.batchSize }, () => item);
}

function runningSums(counts: readonly number[]): number[] {
  let sum = 0;
  return counts.map((count) => {
    sum += count;
    return sum;
  });
}

function numbersOf(values: readonly number[], type: BatchInput["data_type"]): Uint8Array {
  const words = type === "TYPE_FP32" ? Float32Array.from(values) : Int32Array.from(values);
  return new Uint8Array(words.buffer);
}

/**
 * Cuts a flat output: each request's share has the shape of its source input where the output's dimensions are free.
 * @throws ServerError when the model made fewer elements than the shares need
 */
export function scatterOutput(
  output: Tensor,
  { source, dims }: ScatteredOutput,
  requests: readonly BackendRequest[],
): Tensor[] {
  let offset = 0;
  return requests.map((request) => {
    const { shape: filling } = inputOf(request, source);
    const shape = dims.map((dim, axis) => (dim === -1 ? (filling[axis] ?? 1) : dim));
    const size = byteSize(output.datatype, shape);
    if (size === undefined) throw failure(`output '${output.name}' holds texts, and only numbers can be scattered`);
    if (offset + size > output.data.byteLength) {
      throw failure(
        `failed to split the output tensor '${output.name}' in responses: a share of shape [${shape.join(",")}] does not fit in the shape [${output.shape.join(",")}] that the model gave`,
      );
    }
    const data = output.data.subarray(offset, offset + size);
    offset += size;
    return { ...output, shape, data };
  });
}

function inputOf(request: BackendRequest, name: string): Tensor {
  const input = request.request.inputs.find((candidate) => candidate.name === name);
  if (input === undefined) throw differing(name);
  return input;
}

function differing(name: string): ServerError {
  return new ServerError("internal", `requests of one batch have different inputs '${name}'`, { reason: "BACKEND" });
}

function failure(message: string): ServerError {
  return new ServerError("invalid_argument", message, { reason: "BACKEND" });
}
