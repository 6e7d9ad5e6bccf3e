/** Messages between the server and the thread of a model. Tensors travel as offsets into one transferred buffer. */
import type { Datatype } from "@nereid/wire";
import type { ParameterValue, SequenceInfo } from "../../core/infer-request.ts";
import type { MetricType } from "../../observe/metrics.ts";

/** Place of the last batch in `ThreadData.heartbeat`. */
export const BEGUN_BATCH = 1;

export interface PackedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly offset: number;
  readonly size: number;
}

export interface PackedRequest {
  readonly key: number;
  readonly id: string;
  readonly batchSize: number;
  readonly outputNames: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly sequence: SequenceInfo;
  readonly inputs: readonly PackedTensor[];
  readonly isCancelled: boolean;
}

export interface PackedError {
  readonly code: string;
  readonly message: string;
  /** For the log; "" when it is no news. */
  readonly stack: string;
}

export interface PackedAnswer {
  readonly error?: PackedError;
  readonly outputs: readonly PackedTensor[];
}

export interface PackedResponse extends PackedAnswer {
  readonly key: number;
  readonly final: boolean;
  /** True: an end without outputs. */
  readonly isEmpty: boolean;
}

/** Expected datatype and shape of a model's tensor; `dims` without the batch dimension. */
export interface TensorPlan {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly number[];
}

export interface CallPlan {
  /** 0 = the model has no batch dimension. */
  readonly maxBatchSize: number;
  readonly inputs: readonly TensorPlan[];
}

export interface CallMessage {
  readonly type: "call";
  readonly callId: number;
  /** Id of the calling request; 0 = none. */
  readonly key: number;
  readonly isStream: boolean;
  readonly modelName: string;
  readonly version: string;
  readonly id: string;
  readonly sequence: SequenceInfo;
  readonly timeoutUs: number;
  readonly priority: number;
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly inputs: readonly PackedTensor[];
  readonly buffer: ArrayBuffer;
}

/** A new series; its numbers are read where they lie. */
export interface SeriesMessage {
  readonly type: "series";
  readonly name: string;
  readonly help: string;
  readonly metric: MetricType;
  readonly labels: Readonly<Record<string, string>>;
  /** Upper bounds of a histogram. */
  readonly buckets: readonly number[];
  readonly cells: SharedArrayBuffer;
}

export type ToThread =
  | {
      readonly type: "execute";
      readonly batchId: number;
      readonly requests: readonly PackedRequest[];
      readonly buffer: ArrayBuffer;
    }
  | { readonly type: "cancel"; readonly key: number }
  | { readonly type: "credit"; readonly key: number; readonly count: number }
  | { readonly type: "plan"; readonly askId: number; readonly plan?: CallPlan; readonly error?: PackedError }
  | ({
      readonly type: "answer";
      readonly callId: number;
      readonly final: boolean;
      readonly isEmpty: boolean;
      readonly buffer: ArrayBuffer;
    } & PackedAnswer)
  | { readonly type: "finalize" };

export type FromThread =
  | { readonly type: "initialized"; readonly error?: PackedError }
  | {
      readonly type: "responses";
      readonly responses: readonly PackedResponse[];
      /** The batch whose execution is over; 0 = none. */
      readonly executed: number;
      readonly buffer: ArrayBuffer;
    }
  | CallMessage
  | { readonly type: "cancelCall"; readonly callId: number }
  | { readonly type: "taken"; readonly callId: number; readonly count: number }
  | { readonly type: "ask"; readonly askId: number; readonly modelName: string }
  | { readonly type: "log"; readonly level: "info" | "warn" | "error" | "verbose"; readonly message: string }
  | SeriesMessage
  | { readonly type: "finalized"; readonly error?: PackedError };

/** Data that a thread starts with. */
export interface ThreadData {
  /** Absolute path of the model's file. */
  readonly file: string;
  readonly name: string;
  readonly version: number;
  readonly instanceName: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly parameters: Readonly<Record<string, string>>;
  readonly modelFolder: string;
  readonly versionFolder: string;
  readonly maxBatchSize: number;
  readonly decoupled: boolean;
  /** Requests come with sequences, whose state is kept this long without a request, in ms; 0 = no sequences. */
  readonly sequenceIdleMs: number;
  readonly outputs: readonly TensorPlan[];
  /** One 32-bit count that the thread moves on while it lives. */
  /** Two INT32: a counter of the heartbeat, and the batch that the model began last. */
  readonly heartbeat: SharedArrayBuffer;
  readonly heartbeatMs: number;
}
