/**
 * Text to what the engine takes: prompt ids, word lists, bias, end and padding ids. A generator, so that a huge prompt can
 * be encoded in turns with other work. Knows no scheduler.
 */
import type { FixedDatatype } from "@nereid/wire";
import type { InferRequest } from "../../core/infer-request.ts";
import { MAX_PROMPT_BYTES } from "../../core/limits.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { NUM_AXES, promptPositions, readGrids } from "./image-positions.ts";
import { encodePrompt, type ImagePromptSettings, renderPrompt } from "./image-prompt.ts";
import { type ImageRows, promptTable, readImageRows, VISUAL_TOKENS } from "./image-rows.ts";
import { findInput, floatValues, fp32Tensor, int32Tensor, intValues, textRows } from "./tensor-values.ts";
import { wordLists } from "./word-lists.ts";

const NO_IDS = new Int32Array(0);
const EXTRA_IDS = "OUT_PROMPT_TABLE_EXTRA_IDS";
const POSITIONS = "MROPE_POSITION_IDS";

export type Steps<T> = Generator<undefined, T, undefined>;

/** One model of the preprocessing kind. */
export interface PreprocessingModel {
  readonly tokenizer: Tokenizer;
  readonly addSpecialTokens: boolean;
  /** Tensors have a batch dimension in front. */
  readonly isBatching: boolean;
  /** Outputs of the configuration and their datatypes: only these are made. */
  readonly outputs: ReadonlyMap<string, FixedDatatype>;
  readonly images: ImagePromptSettings;
  readonly maxTokens: number | undefined;
}

export function declaredOutputs(config: ModelConfig): ReadonlyMap<string, FixedDatatype> {
  return new Map(config.output.map(({ name, data_type }) => [name, data_type.slice("TYPE_".length) as FixedDatatype]));
}

/** Inputs that need an image processor, which a tokenizer is not. */
const IMAGES = ["IMAGE", "IMAGE_BYTES", "IMAGE_URL", "IMAGES", "VIDEO_BYTES"];

/** @throws ServerError when an input is beyond its limit or asks for what there is not */
export function* preprocess(
  model: PreprocessingModel,
  request: InferRequest,
  numRows: number,
): Steps<readonly Tensor[]> {
  refuseImages(request);
  const maker = new OutputMaker(model, request, model.isBatching ? numRows : 1);
  yield* maker.prompts("QUERY", "INPUT_ID", "REQUEST_INPUT_LEN");
  yield* maker.prompts("DECODER_QUERY", "DECODER_INPUT_ID", "REQUEST_DECODER_INPUT_LEN");
  maker.words("BAD_WORDS_DICT", "BAD_WORDS_IDS");
  maker.words("STOP_WORDS_DICT", "STOP_WORDS_IDS");
  maker.bias();
  maker.table();
  maker.maxTokens();
  maker.id("END_ID", "OUT_END_ID", model.tokenizer.eosId);
  maker.id("PAD_ID", "OUT_PAD_ID", model.tokenizer.padId);
  return maker.tensors;
}

class OutputMaker {
  readonly tensors: Tensor[] = [];
  readonly #model: PreprocessingModel;
  readonly #request: InferRequest;
  readonly #numRows: number;
  /** Images of each prompt; undefined: the request has none. */
  readonly #images: readonly ImageRows[] | undefined;

  constructor(model: PreprocessingModel, request: InferRequest, numRows: number) {
    this.#model = model;
    this.#request = request;
    this.#numRows = numRows;
    this.#images = readImageRows(request, model.isBatching, numRows);
  }

  /** Ids of one text per row, padded on the right, and their lengths. No text: one padding token. */
  *prompts(input: string, output: string, lengthOutput: string): Steps<void> {
    if (!this.#makes(output) && !this.#makes(lengthOutput)) return;
    const rows: Int32Array[] = [];
    const padId = this.#model.tokenizer.padId ?? 0;
    for (const [row, [text = ""]] of this.#texts(input).entries()) {
      expectPromptFits(input, text);
      const isAbsent = text === "" && input !== "QUERY";
      rows.push(isAbsent ? Int32Array.of(padId) : yield* this.#encodePrompt(input, text, row));
    }
    const width = rows.reduce((most, { length }) => Math.max(most, length), 0);
    const values = new Int32Array(rows.length * width).fill(padId);
    rows.forEach((ids, row) => {
      values.set(ids, row * width);
    });
    this.#addInts(output, [width], values);
    if (input === "QUERY") this.#extraIds(values, width);
    if (input === "QUERY") this.#positions(rows, width);
    this.#addInts(
      lengthOutput,
      [1],
      Int32Array.from(rows, ({ length }) => length),
    );
  }

  *#encodePrompt(input: string, text: string, row: number): Steps<Int32Array> {
    const { addSpecialTokens, tokenizer, images } = this.#model;
    const isQuery = input === "QUERY";
    if (!isQuery || !this.#takesImages()) return yield* tokenizer.encodeSteps(text, { addSpecialTokens });
    const lengths = this.#images?.[row]?.lengths ?? [];
    const prompt = renderPrompt(images, text, lengths.length);
    return yield* encodePrompt(images, tokenizer, prompt, lengths);
  }

  /** Templates are for models that declare images, also where a request has none. */
  #takesImages(): boolean {
    return this.#images !== undefined || this.#makes("PROMPT_EMBEDDING_TABLE");
  }

  /** The rows of all images, and how many there are. */
  table(): void {
    const datatype = this.#model.outputs.get("PROMPT_EMBEDDING_TABLE");
    if (this.#images === undefined) return;
    if (datatype === undefined) {
      throw invalidArgument(`input '${VISUAL_TOKENS}' needs an output 'PROMPT_EMBEDDING_TABLE'`);
    }
    const { isBatching } = this.#model;
    const table = promptTable(this.#request, isBatching, { name: "PROMPT_EMBEDDING_TABLE", datatype });
    if (table !== undefined) this.tensors.push(table);
    const sizes = this.#images.map(({ lengths }) => lengths.reduce((sum, length) => sum + length, 0));
    this.#addInts("PROMPT_VOCAB_SIZE", [1], Int32Array.from(sizes));
  }

  /** The request's salt at every id that stands for a row of a table, which is what lies beyond the vocabulary. */
  #extraIds(ids: Int32Array, width: number): void {
    const salt = findInput(this.#request, "PROMPT_TABLE_EXTRA_ID");
    if (salt === undefined || !this.#makes(EXTRA_IDS)) return;
    const { vocabularySize } = this.#model.images;
    const salts = new BigUint64Array(salt.data.slice().buffer);
    const values = BigUint64Array.from(ids, (id, i) =>
      id < vocabularySize ? 0n : (salts[Math.floor(i / width)] ?? 0n),
    );
    const data = new Uint8Array(values.buffer);
    this.tensors.push({ name: EXTRA_IDS, datatype: "UINT64", shape: this.#shape([width]), data });
  }

  /** [3, width] for each prompt, filled up on the right as the ids are. */
  #positions(rows: readonly Int32Array[], width: number): void {
    if (!this.#makes(POSITIONS)) return;
    const given = findInput(this.#request, "IMAGE_GRID_THW");
    if (this.#images !== undefined && given === undefined) {
      throw invalidArgument(`output '${POSITIONS}' needs input 'IMAGE_GRID_THW' beside images`);
    }
    const grids = given === undefined ? [] : readGrids(intValues(given), this.#images ?? []);
    const values = new Int32Array(rows.length * NUM_AXES * width);
    for (const [row, ids] of rows.entries()) {
      const positions = promptPositions(ids, this.#model.images.vocabularySize, grids[row] ?? []);
      for (let axis = 0; axis < NUM_AXES; axis++) {
        const list = positions.subarray(axis * ids.length, (axis + 1) * ids.length);
        values.set(list, (row * NUM_AXES + axis) * width);
      }
    }
    this.#addInts(POSITIONS, [NUM_AXES, width], values);
  }

  words(input: string, output: string): void {
    if (!this.#makes(output)) return;
    const { width, values } = wordLists(input, this.#texts(input), (word) => this.#encodeWord(word));
    this.#addInts(output, [2, width], values);
  }

  /** Adds each word's weight to all its tokens; no words at all: no numbers at all. */
  bias(): void {
    if (!this.#makes("EMBEDDING_BIAS")) return;
    const rows = this.#texts("EMBEDDING_BIAS_WORDS");
    const weights = findInput(this.#request, "EMBEDDING_BIAS_WEIGHTS");
    const hasWords = rows.some((words) => words.some((word) => word !== ""));
    const width = hasWords ? this.#model.tokenizer.vocabularySize : 0;
    const values = new Float32Array(rows.length * width);
    const flat = weights === undefined ? new Float32Array(0) : floatValues(weights);
    const numWords = rows.reduce((sum, words) => sum + words.length, 0);
    if (width > 0 && flat.length !== numWords) {
      throw invalidArgument(
        `inputs 'EMBEDDING_BIAS_WORDS' and 'EMBEDDING_BIAS_WEIGHTS' must have the same length, got ${numWords} and ${flat.length}`,
      );
    }
    wordLists("EMBEDDING_BIAS_WORDS", rows, () => NO_IDS); // for its limits
    let index = 0;
    rows.forEach((words, row) => {
      for (const word of words) addWeight(values, row * width, this.#encodeWord(word), flat[index++] ?? 0);
    });
    this.tensors.push(fp32Tensor("EMBEDDING_BIAS", this.#shape([width]), values));
  }

  maxTokens(): void {
    const name = "REQUEST_OUTPUT_LEN";
    const tensor = findInput(this.#request, name);
    const datatype = this.#model.outputs.get(name);
    // The two eras differ in the sign only: the bits stay.
    if (tensor !== undefined && datatype !== undefined) this.tensors.push({ ...tensor, datatype });
    else if (this.#model.maxTokens !== undefined) {
      this.#addInts(name, [1], new Int32Array(this.#numRows).fill(this.#model.maxTokens));
    }
  }

  /** The id asked for, else the tokenizer's, else -1: none. */
  id(input: string, output: string, fallback: number | undefined): void {
    const given = findInput(this.#request, input);
    const values = given === undefined ? [] : intValues(given);
    this.#addInts(
      output,
      [1],
      Int32Array.from({ length: this.#numRows }, (_, row) => values[row] ?? fallback ?? -1),
    );
  }

  #texts(input: string): readonly (readonly string[])[] {
    const tensor = findInput(this.#request, input);
    if (tensor === undefined) return Array.from({ length: this.#numRows }, () => []);
    return textRows(tensor, this.#numRows);
  }

  /** Words stand inside a text: no start token in front of them. */
  #encodeWord(word: string): Int32Array {
    return this.#model.tokenizer.encode(word, { addSpecialTokens: false });
  }

  #makes(output: string): boolean {
    return this.#model.outputs.has(output);
  }

  #addInts(output: string, rowShape: readonly number[], values: Int32Array): void {
    const datatype = this.#model.outputs.get(output);
    if (datatype !== undefined) this.tensors.push(int32Tensor(output, datatype, this.#shape(rowShape), values));
  }

  #shape(rowShape: readonly number[]): readonly number[] {
    return this.#model.isBatching ? [this.#numRows, ...rowShape] : rowShape;
  }
}

function refuseImages(request: InferRequest): void {
  for (const name of IMAGES) {
    const tensor = findInput(request, name);
    if (tensor === undefined || tensor.data.length === 0) continue;
    throw new ServerError(
      "unsupported",
      `input '${name}' is not supported: images enter the language model as rows of 'prompt_embedding_table'`,
    );
  }
}

function addWeight(values: Float32Array, rowStart: number, ids: Int32Array, weight: number): void {
  for (const id of ids) values[rowStart + id] = (values[rowStart + id] ?? 0) + weight;
}

function expectPromptFits(input: string, text: string): void {
  const numBytes = text.length * 3 <= MAX_PROMPT_BYTES ? 0 : Buffer.byteLength(text);
  if (numBytes <= MAX_PROMPT_BYTES) return;
  throw invalidArgument(`input '${input}' has a text of ${numBytes} bytes, expected at most ${MAX_PROMPT_BYTES}`);
}
