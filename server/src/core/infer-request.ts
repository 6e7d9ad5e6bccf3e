/**
 * An inference request, independent of its protocol. Made by protocol/, read by scheduler/ and backend/. Source: KServe
 * V2, Inference Request.
 */
import type { RequestTrace } from "./request-trace.ts";
import type { Tensor } from "./tensor.ts";

/** A custom parameter. Integers are numbers when safe, else bigints. Doubles are marked, so that 1.0 stays a double. */
export type ParameterValue = string | boolean | number | bigint | DoubleParameter;

/** A floating-point parameter, kept apart from integers: `5.0` and `5` are different values on the wire. */
export interface DoubleParameter {
  readonly double: number;
}

/** Sequence identity of a request; id 0n or "" means none. */
export interface SequenceInfo {
  readonly id: bigint | string;
  readonly start: boolean;
  readonly end: boolean;
}

export const NO_SEQUENCE: SequenceInfo = Object.freeze({ id: 0n, start: false, end: false });

/**
 * The client request that caused this one. Steps of an ensemble and model-to-model calls share its key, so that a step
 * can keep state per client stream (the detokenizer does).
 */
export interface RequestOrigin {
  readonly key: object;
  /** Gets the tokens that engines use for the client request; absent: nobody counts them. */
  readonly tokens?: TokenCounter | undefined;
  /** False while the producer of this request's inputs will send more; true for a client's own request. */
  readonly isLast: boolean;
}

/** Told of tokens while an engine uses them, so that a request that is cut short counts too. */
export interface TokenCounter {
  count(promptTokens: number, outputTokens: number): void;
}

export interface InferRequest {
  /** Name and version as the client gave them; version "" = the server's choice. */
  readonly modelName: string;
  readonly modelVersion: string;
  /** "" when the client gave none. */
  readonly id: string;
  readonly inputs: readonly Tensor[];
  /** Names of the requested outputs; empty = all. */
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly sequence: SequenceInfo;
  /** 0 = the model's default level. */
  readonly priority: number;
  /** Queue timeout in microseconds; 0 = none. */
  readonly timeoutUs: number;
  /** Aborted when the client has disconnected or cancelled; every wait observes it. */
  readonly signal: AbortSignal;
  /** Whether `signal` is aborted, without creating the signal. */
  readonly isCancelled?: boolean;
  readonly origin: RequestOrigin;
  /** `performance.now()` in ms, when the server accepted the request. */
  readonly arrivalMs: number;
  /** Undefined: the request is not sampled. */
  readonly trace?: RequestTrace | undefined;
}

export const NO_PARAMETERS: ReadonlyMap<string, ParameterValue> = new Map();

/** The origin of a request that another one causes, without its place in a stream. */
export function originOf({ origin }: Pick<InferRequest, "origin">): Omit<RequestOrigin, "isLast"> {
  return { key: origin.key, tokens: origin.tokens };
}

export function isCancelled(request: InferRequest): boolean {
  return request.isCancelled ?? request.signal.aborted;
}

/** The same request with other inputs. Not a spread: front ends create the request's `signal` lazily. */
export function withInputs(
  request: InferRequest,
  inputs: readonly Tensor[],
  sequence: SequenceInfo = request.sequence,
): InferRequest {
  return {
    modelName: request.modelName,
    modelVersion: request.modelVersion,
    id: request.id,
    inputs,
    outputs: request.outputs,
    parameters: request.parameters,
    sequence,
    priority: request.priority,
    timeoutUs: request.timeoutUs,
    get signal() {
      return request.signal;
    },
    get isCancelled() {
      return isCancelled(request);
    },
    origin: request.origin,
    arrivalMs: request.arrivalMs,
    trace: request.trace,
  };
}
