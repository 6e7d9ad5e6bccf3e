/** Tensors of a load on a V2 model: zeros, random values, or those of a file (perf_analyzer, "Input Data"). */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { type Datatype, elementSize, packBytesElements } from "@nereid/wire";
import { createRandom, type Random } from "../plan/random.ts";
import type { ModelFacts, TensorFacts } from "../target/server-api.ts";
import type { InferTensor } from "./infer-encoding.ts";

export interface InputOptions {
  /** "zero", "random", or paths of JSON files or of one folder. */
  readonly sources: readonly string[];
  readonly batchSize: number;
  /** By input: shape without the batch dimension. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  readonly stringLength: number;
  readonly stringData: string | undefined;
  readonly seed: number;
}

type Value = string | number | boolean;
type JsonTensor =
  | readonly unknown[]
  | { readonly content?: readonly unknown[]; readonly shape?: readonly number[]; readonly b64?: string };
type JsonStep = Readonly<Record<string, JsonTensor>>;

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** One list of inputs for each request, to be sent in turn. @throws ToolError */
export function inferInputs(facts: ModelFacts, options: InputOptions): readonly (readonly InferTensor[])[] {
  const { batchSize, sources } = options;
  if (batchSize > 1 && facts.maxBatchSize === 0)
    throw new ToolError(`model '${facts.name}' does not batch, got -b ${batchSize}`);
  if (facts.maxBatchSize > 0 && batchSize > facts.maxBatchSize) {
    throw new ToolError(
      `-b ${batchSize}: expected at most the max_batch_size of '${facts.name}', ${facts.maxBatchSize}`,
    );
  }
  const [source = "random"] = sources;
  if (source === "zero" || source === "random") {
    const random = createRandom(options.seed);
    const required = facts.inputs.filter(({ name }) => !facts.optionalInputs.has(name));
    return [required.map((input) => made(input, facts, options, source === "zero" ? undefined : random))];
  }
  if (statSync(source, { throwIfNoEntry: false })?.isDirectory() === true) {
    return [
      facts.inputs
        .filter(({ name }) => existsSync(join(source, name)))
        .map((input) => ofFile(input, facts, options, source)),
    ];
  }
  return sources.flatMap((path) => ofJson(path, facts, options));
}

/** Full shape: with the batch in front. */
function shapeOf({ name, shape }: TensorFacts, facts: ModelFacts, options: InputOptions): number[] {
  const own = facts.maxBatchSize > 0 ? shape.slice(1) : shape;
  const dims = options.shapes.get(name) ?? own;
  if (dims.some((dim) => dim < 0)) {
    const fix = `Give its size: --shape ${name}:${own.map((dim) => (dim < 0 ? "N" : dim)).join(",")}`;
    throw new ToolError(`input '${name}' of model '${facts.name}' has the shape [${own.join(", ")}]`, { fix });
  }
  return facts.maxBatchSize > 0 ? [options.batchSize, ...dims] : [...dims];
}

function made(input: TensorFacts, facts: ModelFacts, options: InputOptions, random: Random | undefined): InferTensor {
  const shape = shapeOf(input, facts, options);
  const count = shape.reduce((product, dim) => product * dim, 1);
  const { name, datatype } = input;
  if (datatype === "BYTES") {
    const text = (): string =>
      options.stringData ?? (random === undefined ? "" : randomText(random, options.stringLength));
    return { name, datatype, shape, data: packTexts(Array.from({ length: count }, text)) };
  }
  const size = elementSize(datatype) ?? 1;
  const data = new Uint8Array(count * size);
  if (random !== undefined) fillRandom(data, datatype, size, random);
  return { name, datatype, shape, data };
}

function randomText(random: Random, length: number): string {
  return Array.from({ length }, () => LETTERS[random.below(LETTERS.length)] ?? "").join("");
}

/** Values that every datatype can hold: floats from 0 to 1, integers from 0 to 127, booleans. */
function fillRandom(data: Uint8Array, datatype: Datatype, size: number, random: Random): void {
  const view = new DataView(data.buffer);
  for (let at = 0; at < data.length; at += size) {
    if (datatype === "FP32") view.setFloat32(at, random.next(), true);
    else if (datatype === "FP64") view.setFloat64(at, random.next(), true);
    else if (datatype === "FP16" || datatype === "BF16")
      view.setUint16(at, random.below(0x3c00), true); // below 1
    else data[at] = random.below(datatype === "BOOL" ? 2 : 128);
  }
}

function packTexts(texts: readonly string[]): Uint8Array {
  return packBytesElements(texts.map((text) => Buffer.from(text)));
}

/** A file for each input: raw values, or lines of text. */
function ofFile(input: TensorFacts, facts: ModelFacts, options: InputOptions, folder: string): InferTensor {
  const bytes = readFileSync(join(folder, input.name));
  const { name, datatype } = input;
  const shape = shapeOf(input, facts, options);
  const one = datatype === "BYTES" ? packTexts(bytes.toString().replace(/\n$/, "").split("\n")) : bytes;
  return { name, datatype, shape, data: repeated(one, facts.maxBatchSize > 0 ? options.batchSize : 1) };
}

function repeated(one: Uint8Array, times: number): Uint8Array {
  return Buffer.concat(Array.from({ length: times }, () => one));
}

function ofJson(path: string, facts: ModelFacts, options: InputOptions): InferTensor[][] {
  const document = readJson(path) as { readonly data?: readonly (JsonStep | readonly JsonStep[])[] };
  if (!Array.isArray(document.data)) throw new ToolError(`${path}: expected an object with the list "data"`);
  const steps = (document.data as readonly (JsonStep | readonly JsonStep[])[]).flat() as readonly JsonStep[];
  return steps.map((step, index) => {
    const at = `${path}: data[${index}]`;
    const unknown = Object.keys(step).find((name) => !facts.inputs.some((input) => input.name === name));
    if (unknown !== undefined) throw new ToolError(`${at}: model '${facts.name}' has no input '${unknown}'`);
    return facts.inputs.flatMap((input) => {
      const value = step[input.name];
      if (value === undefined && facts.optionalInputs.has(input.name)) return [];
      if (value === undefined) throw new ToolError(`${at}: expected a value for the input '${input.name}'`);
      return [ofValue(input, value, facts, options, at)];
    });
  });
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new ToolError(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

function ofValue(
  input: TensorFacts,
  value: JsonTensor,
  facts: ModelFacts,
  options: InputOptions,
  at: string,
): InferTensor {
  const { name, datatype } = input;
  const isList = Array.isArray(value);
  const described = isList ? undefined : (value as Exclude<JsonTensor, readonly unknown[]>);
  const shapes = described?.shape === undefined ? options.shapes : new Map([[name, described.shape]]);
  const shape = shapeOf(input, facts, { ...options, shapes });
  const times = facts.maxBatchSize > 0 ? options.batchSize : 1;
  if (described?.b64 !== undefined)
    return { name, datatype, shape, data: repeated(Buffer.from(described.b64, "base64"), times) };
  const content = (isList ? value : (described?.content ?? [])) as readonly unknown[];
  const values = content.flat(Number.POSITIVE_INFINITY) as Value[];
  const expected = shape.reduce((product, dim) => product * dim, 1) / times;
  if (values.length !== expected) {
    throw new ToolError(
      `${at}: '${name}' has ${values.length} values, expected ${expected} for the shape [${shape.join(", ")}]`,
    );
  }
  const one = datatype === "BYTES" ? packTexts(values.map(String)) : packNumbers(values, datatype);
  return { name, datatype, shape, data: repeated(one, times) };
}

function packNumbers(values: readonly Value[], datatype: Datatype): Uint8Array {
  switch (datatype) {
    case "BOOL":
      return Uint8Array.from(values, (value) => (value === true || value === 1 ? 1 : 0));
    case "INT8":
    case "UINT8":
      return Uint8Array.from(values, Number);
    case "INT16":
    case "UINT16":
      return bytesOf(Uint16Array.from(values, Number));
    case "INT32":
    case "UINT32":
      return bytesOf(Uint32Array.from(values, Number));
    case "INT64":
    case "UINT64":
      return bytesOf(BigInt64Array.from(values.map((value) => BigInt(value))));
    case "FP32":
      return bytesOf(Float32Array.from(values, Number));
    case "FP64":
      return bytesOf(Float64Array.from(values, Number));
    default:
      throw new ToolError(`${datatype} has no form as numbers in JSON`, { fix: `Give it as "b64"` });
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
