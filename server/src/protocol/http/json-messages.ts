/** What goes between the event loop and the threads for JSON. */
import type { JsonDatatype, JsonInferRequest } from "@nereid/wire";

export type JsonTask =
  | { readonly id: number; readonly text: Uint8Array<ArrayBuffer> }
  | {
      readonly id: number;
      readonly datatype: JsonDatatype;
      readonly data: Uint8Array<ArrayBuffer>;
      readonly count: number;
    };

/** A request, or elements as text; neither: the task is given back, with its text if it had one. */
export type JsonAnswer =
  | { readonly id: number; readonly request: JsonInferRequest }
  | { readonly id: number; readonly written: Uint8Array }
  | { readonly id: number; readonly text: Uint8Array | undefined };
