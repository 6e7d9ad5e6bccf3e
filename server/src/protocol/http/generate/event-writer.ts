/**
 * Writes the responses of one stream as JSON (RFC 8259; Triton's generate extension), each like the one before it but for a few tensors: the text between those is
 * made once. Tensors that are the same object have the same text. `bench:streaming` shows the effect.
 */
import type { JsonWriter } from "@nereid/wire";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { writeGenerateResponse, writeTensor } from "./generate-response.ts";

/** Text that stays, or the number of an output whose elements are written anew. */
type Piece = Uint8Array | number;

interface Plan {
  readonly like: InferResponse;
  /** By number of the output: its elements change. */
  readonly changes: readonly boolean[];
  readonly pieces: readonly Piece[];
}

export class EventWriter {
  #before: InferResponse | undefined;
  #plan: Plan | undefined;

  /** Appends what `writeGenerateResponse` would. @throws ServerError when a tensor has no JSON form */
  write(writer: JsonWriter, response: InferResponse): void {
    const plan = this.#plan;
    if (plan === undefined || !fits(plan, response)) {
      this.#writeAnew(writer, response);
      return;
    }
    for (const piece of plan.pieces) {
      if (typeof piece !== "number") writer.rawBytes(piece);
      else writeTensor(writer, response.outputs[piece] as Tensor); // `fits` compared their number
    }
  }

  /** Plans for the next, when this one is like the one before it. */
  #writeAnew(writer: JsonWriter, response: InferResponse): void {
    const before = this.#before;
    this.#before = response;
    this.#plan = undefined;
    if (before === undefined || !isLike(before, response)) {
      writeGenerateResponse(writer, response);
      return;
    }
    const changes = response.outputs.map((output, i) => output !== before.outputs[i]);
    this.#plan = { like: response, changes, pieces: writeInPieces(writer, response, changes) };
  }
}

function fits({ like, changes }: Plan, response: InferResponse): boolean {
  if (!isLike(like, response)) return false;
  const { outputs } = response;
  for (let i = 0; i < outputs.length; i++) {
    if (outputs[i] !== like.outputs[i] && changes[i] !== true) return false;
  }
  return true;
}

/** The same members in the same order. */
function isLike(a: InferResponse, b: InferResponse): boolean {
  const { id, modelName, modelVersion, parameters, outputs } = a;
  if (outputs.length !== b.outputs.length || parameters !== b.parameters || id !== b.id) return false;
  if (modelName !== b.modelName || modelVersion !== b.modelVersion) return false;
  for (let i = 0; i < outputs.length; i++) {
    if (outputs[i] !== b.outputs[i] && outputs[i]?.name !== b.outputs[i]?.name) return false;
  }
  return true;
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
