/** Messages between the event loop and the JSON threads (structured clone, https://nodejs.org/api/worker_threads.html). */
import type { FloatMemory, JsonDatatype, JsonInferRequest } from "@nereid/wire";

/** A leased range of the shared memory. */
export interface SharedRange {
  readonly at: number;
  readonly numBytes: number;
}

/** The `workerData` of a thread: the shared memory, and the address of its own scratch range. */
export interface JsonThreadData {
  readonly memory: FloatMemory;
  readonly scratchAt: number;
}

export type JsonTask =
  | { readonly id: number; readonly text: Uint8Array<ArrayBuffer> | SharedRange }
  | {
      readonly id: number;
      readonly datatype: JsonDatatype;
      readonly data: Uint8Array<ArrayBuffer> | SharedRange;
      readonly count: number;
      /** Range for the text, which is usually large enough. */
      readonly room?: SharedRange | undefined;
    };

/** A request, or elements as text. Neither: the task comes back undone, with its text if it had one. */
export type JsonAnswer =
  | { readonly id: number; readonly request: JsonInferRequest }
  /** A number: bytes written to `room`. */
  | { readonly id: number; readonly written: Uint8Array | number }
  | { readonly id: number; readonly text: Uint8Array | undefined };
