/** Texts to what a text encoder takes: ids, and a mask over those that are not padding. Knows no encoder. */
import type { FixedDatatype } from "@nereid/wire";
import type { InferRequest } from "../../core/infer-request.ts";
import { MAX_PROMPT_BYTES } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import type { Steps } from "./preprocess.ts";
import { findInput, textRows } from "./tensor-values.ts";

export interface EncodingModel {
  readonly tokenizer: Tokenizer;
  readonly input: string;
  readonly addSpecialTokens: boolean;
  readonly isBatching: boolean;
  readonly outputs: ReadonlyMap<string, FixedDatatype>;
  /** Longer texts lose their end. */
  readonly maxLength: number;
  /** Rows are padded to a multiple of this, so that requests of near lengths run as one batch. */
  readonly padMultiple: number;
}

/** @throws ServerError when a text is beyond its limit */
export function* encodeTexts(model: EncodingModel, request: InferRequest, numRows: number): Steps<readonly Tensor[]> {
  const tensor = findInput(request, model.input);
  if (tensor === undefined) throw invalidArgument(`input '${model.input}' is missing`);
  const texts = textRows(tensor, model.isBatching ? numRows : 1).flat();
  const rows: Int32Array[] = [];
  for (const text of texts) rows.push(yield* encodeOne(model, text));
  const longest = rows.reduce((most, { length }) => Math.max(most, length), 1);
  const width = Math.min(model.maxLength, Math.ceil(longest / model.padMultiple) * model.padMultiple);
  const padId = model.tokenizer.padId ?? 0;
  const values: Record<string, Int32Array> = {
    input_ids: new Int32Array(rows.length * width).fill(padId),
    attention_mask: new Int32Array(rows.length * width),
    token_type_ids: new Int32Array(rows.length * width),
  };
  rows.forEach((ids, row) => {
    values.input_ids?.set(ids, row * width);
    values.attention_mask?.fill(1, row * width, row * width + ids.length);
  });
  const shape = [...leadingShape(model, tensor, rows.length), width];
  return [...model.outputs].flatMap(([name, datatype]) => {
    const found = values[name];
    return found === undefined ? [] : [{ name, datatype, shape, data: packed(found, datatype) }];
  });
}

/** A text a row needs no dimension of its own. */
function leadingShape({ isBatching }: EncodingModel, { shape }: Tensor, count: number): readonly number[] {
  if (isBatching && shape.length === 2 && shape[1] === 1) return [count];
  return isBatching ? shape : [count];
}

/** Blanks around a text say nothing of it, and language models begin with one. */
function* encodeOne(model: EncodingModel, given: string): Steps<Int32Array> {
  const text = given.trim();
  const numBytes = Buffer.byteLength(text);
  if (numBytes > MAX_PROMPT_BYTES) {
    const message = `input '${model.input}' has a text of ${numBytes} bytes, expected at most ${MAX_PROMPT_BYTES}`;
    throw invalidArgument(message);
  }
  const { tokenizer, addSpecialTokens, maxLength } = model;
  const ids = yield* tokenizer.encodeSteps(text, { addSpecialTokens });
  if (ids.length <= maxLength) return ids;
  const numAfter = addSpecialTokens ? endTokens(tokenizer) : 0;
  const cut = ids.slice(0, maxLength);
  cut.set(ids.subarray(ids.length - numAfter), maxLength - numAfter);
  return cut;
}

/** How many tokens stand behind every text: what is cut off comes before them. */
function endTokens(tokenizer: Tokenizer): number {
  const [framed, bare] = [true, false].map((addSpecialTokens) => tokenizer.encode("a", { addSpecialTokens }));
  if (framed === undefined || bare === undefined) return 0;
  const before = framed.findIndex((_, at) => bare.every((id, i) => framed[at + i] === id));
  return Math.max(0, framed.length - bare.length - before);
}

function packed(values: Int32Array, datatype: FixedDatatype): Uint8Array {
  const typed = datatype === "INT64" ? BigInt64Array.from(values, BigInt) : values;
  return new Uint8Array(typed.buffer, typed.byteOffset, typed.byteLength);
}
