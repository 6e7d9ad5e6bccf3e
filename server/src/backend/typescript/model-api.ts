/**
 * The interface of a model in TypeScript: types alone, without imports. `nereid types` writes this text beside models,
 * with the types of their tensors, so that a model needs no package.
 */

export type Datatype =
  | "BOOL"
  | "UINT8"
  | "UINT16"
  | "UINT32"
  | "UINT64"
  | "INT8"
  | "INT16"
  | "INT32"
  | "INT64"
  | "FP16"
  | "BF16"
  | "FP32"
  | "FP64"
  | "BYTES";

/** How the elements of each datatype lie in `data`. FP16 and BF16 are bits; `floats` has them as numbers. */
export interface ElementsOf {
  BOOL: Uint8Array;
  UINT8: Uint8Array;
  UINT16: Uint16Array;
  UINT32: Uint32Array;
  UINT64: BigUint64Array;
  INT8: Int8Array;
  INT16: Int16Array;
  INT32: Int32Array;
  INT64: BigInt64Array;
  FP16: Uint16Array;
  BF16: Uint16Array;
  FP32: Float32Array;
  FP64: Float64Array;
  BYTES: readonly Uint8Array[];
}

export interface Tensor<D extends Datatype = Datatype> {
  readonly name: string;
  readonly datatype: D;
  readonly shape: readonly number[];
  /** The elements, row by row. They belong to this request alone: change them as you like. */
  readonly data: ElementsOf[D];
  /** The elements as text: of BYTES decoded as UTF-8. */
  readonly strings: readonly string[];
  /** The elements as 32-bit floats, converted from any datatype. */
  readonly floats: Float32Array;
}

/** Values accepted for a tensor of a datatype, beside the array type of its `data`. */
interface AlternativesOf {
  BOOL: readonly boolean[] | boolean;
  UINT8: readonly number[] | number;
  UINT16: readonly number[] | number;
  UINT32: readonly number[] | number;
  UINT64: readonly (number | bigint)[] | number | bigint;
  INT8: readonly number[] | number;
  INT16: readonly number[] | number;
  INT32: readonly number[] | number;
  INT64: readonly (number | bigint)[] | number | bigint;
  FP16: Float32Array | readonly number[] | number;
  BF16: Float32Array | readonly number[] | number;
  FP32: readonly number[] | number;
  FP64: readonly number[] | number;
  BYTES: readonly (string | Uint8Array)[] | string;
}

export type Elements<D extends Datatype = Datatype> = D extends Datatype ? ElementsOf[D] | AlternativesOf[D] : never;

/** A tensor to send. The shape may be left out where the configuration and the number of elements tell it. */
export type TensorValue<D extends Datatype = Datatype> =
  | Elements<D>
  | Tensor<D>
  | { readonly data: Elements<D>; readonly shape?: readonly number[]; readonly datatype?: D };

export type ParameterValue = string | boolean | number | bigint;

export interface CallOptions {
  /** Outputs wanted; all of the model when left out. */
  readonly outputs?: readonly string[];
  readonly parameters?: Readonly<Record<string, ParameterValue>>;
  /** Version of the model to call; default: the server's choice. */
  readonly version?: number | string;
  readonly id?: string;
  readonly sequence?: { readonly id: bigint | number | string; readonly start?: boolean; readonly end?: boolean };
  /** How long the call may wait in the queue of the other model. */
  readonly timeoutUs?: number;
  readonly priority?: number;
  readonly signal?: AbortSignal;
}

/** Another model of the same server. `I`: what it takes, `O`: what it gives. */
export interface ModelHandle<I = Readonly<Record<string, TensorValue>>, O = Readonly<Record<string, Tensor>>> {
  /** One answer. Throws when the model fails, is not there, or gives more than one answer. */
  infer(inputs: I, options?: CallOptions): Promise<O>;
  /** All answers of a decoupled model, as they come. Leaving the loop cancels the rest. */
  stream(inputs: I, options?: CallOptions): AsyncIterable<O>;
}

/** By name: `models.resnet`, `models["my-model"]`. */
export interface Models {
  readonly [name: string]: ModelHandle;
}

export type Labels = Readonly<Record<string, string>>;

/** On the server's metrics page, with the labels `model` and `version` in front of your own. */
export interface Metrics {
  counter(name: string, help: string): { increment(by?: number, labels?: Labels): void };
  gauge(name: string, help: string): { set(value: number, labels?: Labels): void };
  /** `buckets`: upper bounds, ascending. */
  histogram(name: string, help: string, buckets: readonly number[]): { observe(value: number, labels?: Labels): void };
}

/** The server's log. `console.log` ends up there as well. */
export interface Log {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
  /** Shown at `--log-verbose=1` and above. */
  verbose(message: string): void;
}

/** Error codes that reach the client with the message; every other error counts as "internal". */
export type ErrorCode =
  | "unknown"
  | "internal"
  | "not_found"
  | "invalid_argument"
  | "unavailable"
  | "unsupported"
  | "already_exists"
  | "cancelled";

/** One instance of the model: there are as many as `instance_group` says, each in a thread of its own. */
export interface Context<M = Models> {
  readonly name: string;
  readonly version: number;
  readonly instanceName: string;
  /** The configuration of the model, complete, by the names of `config.pbtxt`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** `parameters` of the configuration. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly modelFolder: string;
  readonly versionFolder: string;
  readonly models: M;
  readonly metrics: Metrics;
  readonly log: Log;
  /** An error to throw that clients see with a code of its own. */
  error(code: ErrorCode, message: string): Error;
}

/** One request. `I`: its inputs, `O`: what it is answered with, `S`: what a sequence keeps, `M`: the models to call. */
export interface Request<I, O, S, M = Models> {
  readonly id: string;
  readonly inputs: I;
  /** Rows of the inputs; 1 for a model without a batch dimension. */
  readonly batchSize: number;
  /** Outputs that the client wants; others may be left out. */
  readonly outputNames: readonly string[];
  readonly parameters: Readonly<Record<string, ParameterValue>>;
  /** Undefined when the request belongs to no sequence. */
  readonly sequence: { readonly id: bigint | string; readonly start: boolean; readonly end: boolean } | undefined;
  /** Kept from request to request of one sequence, and dropped with its end. Starts as `{}`. */
  state: S;
  /** Aborted when the client has gone or given up. */
  readonly signal: AbortSignal;
  /** Other models, called for this request: what is called is cancelled and traced with it. */
  readonly models: M;
  /** Decoupled models: one answer, before `execute` ends. Resolves when the client keeps up. */
  send(outputs: O): Promise<void>;
}

/** Results of `execute`: outputs by name; for a decoupled model many of them, or nothing after `send`. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function without return is what a model with `send` is
export type Answer<O> = O | void | AsyncIterable<O> | Promise<O | void>;

/** The exports of `model.ts`: as names, or as the members of its default export. */
export interface BaseModel<I, O, S = Record<string, unknown>, M = Models> {
  /** Called once, before the first request. If it throws, the model does not load. */
  initialize?(context: Context<M>): void | Promise<void>;
  /** Answers one request; the requests of a batch run side by side. */
  execute?(request: Request<I, O, S, M>, context: Context<M>): Answer<O>;
  /** In place of `execute`: answers a whole batch at once, in order. An Error answers its request alone. */
  executeBatch?(
    requests: readonly Request<I, O, S, M>[],
    context: Context<M>,
  ): readonly (O | Error)[] | Promise<readonly (O | Error)[]>;
  /** Once, when the model is unloaded. */
  finalize?(context: Context<M>): void | Promise<void>;
}

export interface BatchInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly byteSize: number;
}

/** A waiting request, as a batch strategy sees it. */
export interface BatchRequest {
  readonly id: string;
  readonly batchSize: number;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly inputs: Readonly<Record<string, BatchInput>>;
  readonly parameters: Readonly<Record<string, ParameterValue>>;
}

/** The exports of `batchstrategy.ts`. `B`: what it notes about the batch that it forms. */
export interface BatchStrategy<B> {
  /** A batch begins; `{}` when left out. */
  startBatch?(context: {
    readonly name: string;
    readonly maxBatchSize: number;
    readonly parameters: Readonly<Record<string, string>>;
  }): B;
  /** Asked in the order of the queue. The first request goes in whatever is said; the first `false` after it ends the batch. */
  includeRequest(batch: B, request: BatchRequest): boolean;
}

/** Without generated types: tensors by any name. `nereid types <repository>` writes better ones. */
export type Model = BaseModel<Readonly<Record<string, Tensor>>, Readonly<Record<string, TensorValue>>>;
