/** What goes between the event loop and the threads for JSON. */
import type { JsonDatatype, JsonInferRequest } from "@nereid/wire";

export type JsonTask =
  /** A text in shared memory is only lent. */
  | { readonly id: number; readonly text: Uint8Array }
  | {
      readonly id: number;
      readonly datatype: JsonDatatype;
      readonly data: Uint8Array;
      readonly count: number;
      /** Shared memory for the text, which needs no more as a rule. */
      readonly room?: Uint8Array | undefined;
    };

/** A request, or elements as text; neither: the task is given back, with its text if it had one. */
export type JsonAnswer =
  | { readonly id: number; readonly request: JsonInferRequest }
  /** A number: so many bytes are in the room that was given. */
  | { readonly id: number; readonly written: Uint8Array | number }
  | { readonly id: number; readonly text: Uint8Array | undefined };
