/**
 * An inference as users ask for it, and the same with everything in one place for both protocols. Knows no wire
 * format. Source: Open Inference Protocol, "Inference"; Triton's extensions of its parameters.
 */
import type { CallOptions } from "./call-options.ts";
import type { HedgeOptions } from "./call-policy.ts";
import type { ErrorContext } from "./error-details.ts";
import type { CompressionAlgorithm } from "./http/compress.ts";
import type { InputValues, ModelTypes, NamedInput, OutputName } from "./model-types.ts";
import type { InputTensor, RegionPart, TensorValue } from "./tensor.ts";

export interface RequestedOutput<N extends string = string> {
  readonly name: N;
  /** Returns that many best classes as BYTES "score:index:label" instead of the tensor (Triton's classification extension). */
  readonly classCount?: number | undefined;
  /** The server writes the output there instead of sending it (Triton's shared memory extension). */
  readonly memory?: RegionPart | undefined;
}

export type RequestParameter = string | number | bigint | boolean;

/** Place of a request in a sequence (Triton's sequence extension). */
export interface SequencePosition {
  /** Not 0 and not "". */
  readonly id: number | bigint | string;
  readonly isStart?: boolean | undefined;
  readonly isEnd?: boolean | undefined;
}

export interface InferOptions<M extends ModelTypes = ModelTypes> {
  /** Inputs by name, which the compiler checks for being complete, or a list. */
  readonly inputs: InputValues<M> | readonly NamedInput<M>[];
  /** Default: all outputs of the model. */
  readonly outputs?: readonly (OutputName<M> | RequestedOutput<OutputName<M>>)[] | undefined;
  readonly id?: string | undefined;
  readonly sequence?: SequencePosition | undefined;
  /** 1 is the highest; 0 the model's default. */
  readonly priority?: number | bigint | undefined;
  /** Longest wait in the model's queue, in microseconds. Needs `allow_timeout_override` of the model. */
  readonly queueTimeoutUs?: number | undefined;
  /** Further parameters of the model. */
  readonly parameters?: Readonly<Record<string, RequestParameter>> | undefined;
}

export interface InferCallOptions extends CallOptions {
  /** Sends the request again when it is slow. Only for models that may run twice; requests of sequences refuse it. */
  readonly hedge?: HedgeOptions | undefined;
  /** The model may run twice without harm, so that broken connections are tried again too. Default: false. */
  readonly isIdempotent?: boolean | undefined;
  /** Compresses the request. */
  readonly compression?: CompressionAlgorithm | undefined;
  /** Asks for a compressed response. Browsers decide themselves. */
  readonly responseCompression?: CompressionAlgorithm | undefined;
}

/** A request with its model, in the terms of the protocol. */
export interface InferRequest {
  readonly model: string;
  /** "": the server chooses. */
  readonly version: string;
  readonly id: string;
  readonly parameters: Readonly<Record<string, RequestParameter>>;
  readonly inputs: readonly InputTensor[];
  readonly outputs: readonly RequestedOutput[];
}

/** @throws RangeError for a request that cannot be */
export function requestOf<M extends ModelTypes>(
  model: string,
  version: string,
  options: InferOptions<M> & InferCallOptions,
): InferRequest {
  const { inputs, outputs = [], id = "", sequence } = options;
  if (sequence !== undefined && options.hedge !== undefined) {
    throw new RangeError(`model '${model}': a request of a sequence cannot be hedged, because it would run twice`);
  }
  return {
    model,
    version,
    id,
    parameters: { ...options.parameters, ...protocolParameters(options) },
    inputs: Array.isArray(inputs) ? inputs : namedInputs(inputs as Readonly<Record<string, TensorValue>>),
    outputs: outputs.map((output) => (typeof output === "string" ? { name: output } : output)),
  };
}

/** Members that are undefined are optional inputs left out. */
function namedInputs(inputs: Readonly<Record<string, TensorValue | undefined>>): InputTensor[] {
  return Object.entries(inputs).flatMap(([name, value]) => (value === undefined ? [] : [{ name, ...value }]));
}

/** Source: Triton's sequence and schedule policy extensions, "parameters". */
function protocolParameters<M extends ModelTypes>(options: InferOptions<M>): Record<string, RequestParameter> {
  const { sequence, priority, queueTimeoutUs } = options;
  const parameters: Record<string, RequestParameter> = {};
  if (sequence !== undefined) {
    parameters.sequence_id = sequence.id;
    parameters.sequence_start = sequence.isStart ?? false;
    parameters.sequence_end = sequence.isEnd ?? false;
  }
  if (priority !== undefined) parameters.priority = priority;
  if (queueTimeoutUs !== undefined) parameters.timeout = queueTimeoutUs;
  return parameters;
}

/** The request as errors name it. */
export function contextOf({ model, id }: InferRequest): ErrorContext {
  return { model, requestId: id === "" ? undefined : id };
}

/** Outputs by name that the server writes into shared memory. */
export function regionsOf({ outputs }: InferRequest): ReadonlyMap<string, string> {
  return new Map(outputs.flatMap(({ name, memory }) => (memory === undefined ? [] : [[name, memory.region]])));
}
