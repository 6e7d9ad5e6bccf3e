/** Messages between the main thread and the threads of a load generator. Everything can be cloned. */
import process from "node:process";
import type { InferEncoding, InferSpec } from "../input/infer-encoding.ts";
import type { ArrivalSchedule } from "../plan/arrivals.ts";
import type { SequencePlan } from "../plan/sequences.ts";
import type { Address } from "./connect.ts";

/** Requests to choose from, in turn. */
export type RequestPlan =
  | {
      readonly kind: "infer";
      readonly specs: readonly InferSpec[];
      readonly encoding: InferEncoding;
      readonly sequences: SequencePlan | undefined;
    }
  /** Whole requests of HTTP, each sent once, in this order. */
  | {
      readonly kind: "bytes";
      readonly requests: readonly Uint8Array[];
      /** Number of the next request, 32 bits: threads of a closed loop take them as they need them. */
      readonly next: SharedArrayBuffer;
    };

export interface ThreadPlan {
  readonly address: Address;
  readonly transport: "http" | "grpc" | "grpc-stream";
  /** Header fields of gRPC. */
  readonly metadata: readonly (readonly [name: string, value: string])[];
  /** Streams and calls that share a connection of gRPC. */
  readonly callsPerConnection: number;
  readonly requests: RequestPlan;
  /** Keep when each part of an answer came, and what it says. */
  readonly keepsParts: boolean;
  /** Many responses may follow a request of a stream; the last one is marked. */
  readonly isDecoupled: boolean;
  readonly index: number;
  readonly count: number;
}

/** Times of the main thread and of all threads count from this clock: ms of a monotonic clock of the machine. */
export function machineMs(): number {
  return performance.now() + offsetMs;
}
/** Threads have their own zero of `performance.now()`, and share `hrtime`. */
const offsetMs: number = Number(process.hrtime.bigint() / 1000n) / 1000 - performance.now();

export type LoadCommand =
  /** A closed loop: so many clients of this thread, each with one request under way. */
  | { readonly kind: "concurrency"; readonly clients: number }
  /** An open loop, from a time of the machine's clock on. */
  | { readonly kind: "schedule"; readonly schedule: ArrivalSchedule; readonly startMs: number }
  /** No new requests; those under way are finished. */
  | { readonly kind: "pause" }
  | { readonly kind: "stop" };

/** Numbers of one exchange in `LoadReport.exchanges`: start and end in ms, and 1 for a failure. */
export const EXCHANGE_FIELDS = 3;

export interface LoadReport {
  /** `EXCHANGE_FIELDS` numbers for each exchange that ended, in the order of their ends. */
  readonly exchanges: Float64Array;
  /** With `keepsParts`. */
  readonly answers: readonly KeptAnswer[];
  /** The first failure. */
  readonly failure: string | undefined;
  /** Share of the time that the thread was busy, since the last report. */
  readonly busyShare: number;
  /** Open loop: the latest that a request was sent after its time, in ms. */
  readonly maxLateMs: number;
  /** Arrivals that found no free connection within the limit. */
  readonly numDropped: number;
  readonly numSent: number;
  /** True when nothing is under way and nothing will be sent. */
  readonly isIdle: boolean;
}

export interface KeptAnswer {
  /** Number of the request in the plan. */
  readonly request: number;
  readonly startMs: number;
  readonly endMs: number;
  /** When each part came, ms. */
  readonly partsMs: Float64Array;
  /** The body of HTTP, or one text for each part. */
  readonly parts: readonly string[];
  readonly failure: string | undefined;
}
