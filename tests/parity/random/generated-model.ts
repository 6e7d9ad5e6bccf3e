/**
 * A tiny model of a recorded random configuration: config.json and weights in a folder. The weights come from a generator that counts, the
 * same as in record_random.py, so that only names and shapes are stored.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

export interface RandomConfig {
  readonly config: Readonly<Record<string, unknown>>;
  readonly seed: number;
  /** Tokens of the prompt. */
  readonly prompt: number;
  /** "name with * shape layer layer": shapes as 4x8, with + in front where the numbers lie around 1. */
  readonly tensors: readonly string[];
  /** First digits of the SHA-256 of the greedy tokens, joined by commas. */
  readonly ids: string;
  /** The largest logit of the first and of the last step. */
  readonly logits: readonly [first: number, last: number];
}

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly base: number;
}

const FLOAT_BYTES = 4;
const GOLDEN = 0x9e3779b9;
const HALF_RANGE = 2 ** 23;
const VECTOR_SCALE = 0.3;

export function readFamily(family: string): readonly RandomConfig[] {
  const packed = readFileSync(new URL(`${family}.json.gz`, import.meta.url));
  const lines = gunzipSync(packed).toString().trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as RandomConfig);
}

export function writeModel(folder: string, { config, seed, tensors }: RandomConfig): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), safetensors(tensors.flatMap(expand), seed));
}

export function promptOf({ seed, prompt }: RandomConfig, vocabulary: number): number[] {
  return Array.from(numbers(`${seed}/prompt`, prompt), (number) => 3 + (number % (vocabulary - 3)));
}

function expand(line: string): Tensor[] {
  const [name = "", shape = "", ...layers] = line.split(" ");
  const base = shape.startsWith("+") ? 1 : 0;
  const dims = shape.replace("+", "").split("x").map(Number);
  if (!name.includes("*")) return [{ name, shape: dims, base }];
  return layers.map((layer) => ({ name: name.replace("*", layer), shape: dims, base }));
}

/** Header, then the numbers (safetensors, "Format"). */
function safetensors(tensors: readonly Tensor[], seed: number): Buffer {
  let offset = 0;
  const header: Record<string, object> = {};
  const parts: Buffer[] = [];
  for (const tensor of tensors) {
    const values = weightsOf(tensor, seed);
    const end = offset + values.length * FLOAT_BYTES;
    header[tensor.name] = { dtype: "F32", shape: tensor.shape, data_offsets: [offset, end] };
    parts.push(Buffer.from(values.buffer));
    offset = end;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...parts]);
}

function weightsOf({ name, shape, base }: Tensor, seed: number): Float32Array {
  const count = shape.reduce((product, dim) => product * dim, 1);
  const isEmbedding = name.includes("embed") || name.includes("lm_head");
  const matrixScale = Math.sqrt(3 / (shape.at(-1) ?? 1)) * (isEmbedding ? 0.5 : 1);
  const scale = shape.length === 1 ? VECTOR_SCALE : matrixScale;
  return Float32Array.from(numbers(`${seed}/${name}`, count), (number) => base + scale * (number / HALF_RANGE - 1));
}

/** Whole numbers of 24 bits, each a function of the key and of its place. */
function numbers(key: string, count: number): Uint32Array {
  const start = fnv(key);
  return Uint32Array.from({ length: count }, (_, place) => mix((Math.imul(place, GOLDEN) + start) >>> 0) >>> 8);
}

/** A permutation of 32 bits ("lowbias32", Wellons 2018, Hash Function Prospector). */
function mix(value: number): number {
  let x = value;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
  return (x ^ (x >>> 16)) >>> 0;
}

/** FNV-1a of 32 bits (draft-eastlake-fnv). */
function fnv(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}
