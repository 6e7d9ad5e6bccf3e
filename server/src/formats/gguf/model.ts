/**
 * Presents a GGUF file as a Hugging Face model: its config, tensor names and row order. Source: ggml/docs/gguf.md, and
 * llama.cpp's convert_hf_to_gguf.py for permuted rows. The tokenizer stays metadata.
 */

import { expectTensorRange, type StoredTensor, type TensorSource } from "../tensors/tensor-source.ts";
import { ggufArchitectureOf, ggufToHfConfig } from "./config.ts";
import { type GgufFile, openGguf } from "./gguf.ts";
import type { GgufValue } from "./header.ts";
import { type GgufPart, ggufParts } from "./tensor-names.ts";

export interface GgufModel extends TensorSource {
  /** The equivalent of config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly metadata: ReadonlyMap<string, GgufValue>;
}

/** No published model has larger heads. */
const MAX_HEAD_ROWS = 1024;

/** @throws Error naming the file and what is wrong with it */
export async function openGgufModel(path: string): Promise<GgufModel> {
  const file = await openGguf(path);
  try {
    const [factors, short, long] = [
      await readRopeFactors(file, "rope_freqs.weight", path),
      await readRopeFactors(file, "rope_factors_short.weight", path),
      await readRopeFactors(file, "rope_factors_long.weight", path),
    ];
    const config = ggufToHfConfig(file, { factors, short, long }, path);
    const architecture = ggufArchitectureOf(file);
    const headRows = architecture?.hasInterleavedRows === true ? headRowsOf(config, path) : undefined;
    const parts = [...file.tensors.values()].flatMap((tensor) => ggufParts(tensor, headRows, architecture));
    for (const part of parts) expectWholeHeads(part, path);
    return new HfNamedGguf(file, config, new Map(parts.map((part) => [part.tensor.name, part])));
  } catch (error) {
    await file.close();
    throw error;
  }
}

class HfNamedGguf implements GgufModel {
  readonly config: Readonly<Record<string, unknown>>;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #file: GgufFile;
  readonly #parts: ReadonlyMap<string, GgufPart>;

  constructor(file: GgufFile, config: Readonly<Record<string, unknown>>, parts: ReadonlyMap<string, GgufPart>) {
    this.config = config;
    this.metadata = file.metadata;
    this.tensors = new Map([...parts].map(([name, { tensor }]) => [name, tensor]));
    this.#file = file;
    this.#parts = parts;
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const tensor = expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const part = this.#parts.get(name);
    if (part === undefined) throw new Error(`the model has no tensor "${name}"`);
    if (part.pairedRows === undefined) {
      await this.#file.read(part.sourceName, into, part.sourceOffset + byteOffset);
      return;
    }
    await this.#readPaired(part, part.pairedRows, tensor, into, byteOffset);
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  /** Reads whole heads, then copies the requested bytes of their rows in Hugging Face order. */
  async #readPaired(
    part: GgufPart,
    headRows: number,
    { shape, byteLength }: StoredTensor,
    into: Uint8Array,
    byteOffset: number,
  ): Promise<void> {
    const rowLength = byteLength / (shape[0] ?? 1);
    const head = new Uint8Array(headRows * rowLength);
    const end = byteOffset + into.byteLength;
    for (let start = byteOffset - (byteOffset % head.byteLength); start < end; start += head.byteLength) {
      await this.#file.read(part.sourceName, head, start);
      for (let row = 0; row < headRows; row++) {
        const from = Math.max(byteOffset, start + row * rowLength);
        const to = Math.min(end, start + (row + 1) * rowLength);
        if (from >= to) continue;
        const sourceStart = interleavedRow(row, headRows) * rowLength + (from - start - row * rowLength);
        into.set(head.subarray(sourceStart, sourceStart + to - from), from - byteOffset);
      }
    }
  }
}

/** Index of row `row` of a head in a file whose first and second halves are interleaved for RoPE. */
export function interleavedRow(row: number, headRows: number): number {
  const half = headRows / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

async function readRopeFactors(file: GgufFile, name: string, path: string): Promise<Float32Array | undefined> {
  const tensor = file.tensors.get(name);
  if (tensor === undefined) return undefined;
  if (tensor.dtype !== "F32" || tensor.shape.length !== 1 || (tensor.shape[0] ?? 0) > MAX_HEAD_ROWS) {
    throw new Error(`${path}: ${name}: expected F32[head / 2], got ${tensor.dtype}[${tensor.shape.join(", ")}]`);
  }
  const factors = new Float32Array(tensor.shape[0] ?? 0);
  await file.read(tensor.name, new Uint8Array(factors.buffer));
  return factors;
}

function headRowsOf(config: Readonly<Record<string, unknown>>, path: string): number {
  const rows = Number(config.head_dim ?? Number(config.hidden_size) / Number(config.num_attention_heads));
  if (Number.isInteger(rows) && rows >= 2 && rows % 2 === 0 && rows <= MAX_HEAD_ROWS) return rows;
  throw new Error(`${path}: expected heads of an even number up to ${MAX_HEAD_ROWS} rows, got ${rows}`);
}

function expectWholeHeads({ tensor, pairedRows }: GgufPart, path: string): void {
  const [rows = 0] = tensor.shape;
  if (pairedRows === undefined || rows % pairedRows === 0) return;
  throw new Error(`${path}: tensor "${tensor.name}": expected whole heads of ${pairedRows} rows, got ${rows} rows`);
}
