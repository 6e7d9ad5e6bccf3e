/**
 * Writes the responses of one stream as JSON (RFC 8259; Triton's generate extension). The text between tensors that change
 * is made once. `bench:streaming` shows the effect.
 */
import type { JsonWriter } from "@nereid/wire";
import type { InferResponse } from "../../../core/infer-response.ts";
import { ResponsePattern } from "../../../core/response-pattern.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { writeGenerateResponse, writeTensor } from "./generate-response.ts";

/** Text that stays, or the number of an output whose elements are written anew. */
type Piece = Uint8Array | number;

export class EventWriter {
  readonly #pattern = new ResponsePattern(false);
  #pieces: readonly Piece[] = [];

  /** Appends what `writeGenerateResponse` would. @throws ServerError when a tensor has no JSON form */
  write(writer: JsonWriter, response: InferResponse): void {
    switch (this.#pattern.compare(response)) {
      case "unlike":
        writeGenerateResponse(writer, response);
        return;
      case "learned":
        this.#writeAndLearn(writer, response);
        return;
      case "known":
        this.#writePieces(writer, response.outputs);
    }
  }

  #writeAndLearn(writer: JsonWriter, response: InferResponse): void {
    try {
      this.#pieces = writeInPieces(writer, response, this.#pattern.changes);
    } catch (error) {
      this.#pattern.forget();
      throw error;
    }
  }

  #writePieces(writer: JsonWriter, outputs: readonly Tensor[]): void {
    for (const piece of this.#pieces) {
      if (typeof piece !== "number") writer.rawBytes(piece);
      else writeTensor(writer, outputs[piece] as Tensor); // the pattern compared their number
    }
  }
}

/** Writes the response and gives its text, cut where the elements of outputs change. */
function writeInPieces(writer: JsonWriter, response: InferResponse, changes: readonly boolean[]): Piece[] {
  const pieces: Piece[] = [];
  const cuts: { readonly output: number; readonly from: number; readonly to: number }[] = [];
  const start = writer.size;
  writeGenerateResponse(writer, response, (tensor, from, to) => {
    const output = response.outputs.indexOf(tensor);
    if (changes[output] === true) cuts.push({ output, from, to });
  });
  const text = writer.finish();
  let at = start;
  for (const { output, from, to } of cuts) {
    pieces.push(text.slice(at, from), output);
    at = to;
  }
  pieces.push(text.slice(at));
  return pieces;
}
