/** What goes between the event loop and the threads for JSON. */
import type { FloatMemory, JsonDatatype, JsonInferRequest } from "@nereid/wire";

/** A part of the memory that all share. It is only lent. */
export interface Place {
  readonly at: number;
  readonly numBytes: number;
}

/** What a thread is started with: memory that it shares with others, and where the part for it alone begins. */
export interface JsonThreadData {
  readonly memory: FloatMemory;
  readonly scratchAt: number;
}

export type JsonTask =
  | { readonly id: number; readonly text: Uint8Array<ArrayBuffer> | Place }
  | {
      readonly id: number;
      readonly datatype: JsonDatatype;
      readonly data: Uint8Array<ArrayBuffer> | Place;
      readonly count: number;
      /** For the text, which needs no more as a rule. */
      readonly room?: Place | undefined;
    };

/** A request, or elements as text; neither: the task is given back, with its text if it had one. */
export type JsonAnswer =
  | { readonly id: number; readonly request: JsonInferRequest }
  /** A number: so many bytes are in the room that was given. */
  | { readonly id: number; readonly written: Uint8Array | number }
  | { readonly id: number; readonly text: Uint8Array | undefined };
