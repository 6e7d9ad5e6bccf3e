/** Reads one row of a batched request's tensors as plain values. Knows datatypes, and no meaning of any input. */
import { elementSize } from "@nereid/wire";
import { bf16ToNumber } from "../../core/bf16.ts";
import { fp16ToNumber, widenFp16 } from "../../core/fp16.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";

export class RowInputs {
  readonly #tensors: ReadonlyMap<string, Tensor>;
  readonly #row: number;
  readonly #numRows: number;

  constructor(tensors: readonly Tensor[], row: number, numRows: number) {
    this.#tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    this.#row = row;
    this.#numRows = numRows;
  }

  /** True when the row carries at least one element that says something (an empty string does not). */
  has(name: string): boolean {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined || tensor.data.length === 0) return false;
    return tensor.datatype !== "BYTES" || tensor.data.some((byte) => byte !== 0);
  }

  int(...names: string[]): number | undefined {
    const value = this.#first(names);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw invalidArgument(`input '${names[0]}' is ${value}, expected an integer`);
  }

  bigint(...names: string[]): bigint | undefined {
    const value = this.#first(names);
    return value === undefined ? undefined : BigInt(value);
  }

  float(...names: string[]): number | undefined {
    const value = this.#first(names);
    return value === undefined ? undefined : Number(value);
  }

  flag(name: string): boolean {
    return Number(this.#first([name]) ?? 0) !== 0;
  }

  /** The first string of the row; undefined when the input is absent or says nothing. */
  text(name: string): string | undefined {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined || !this.has(name)) return undefined;
    if (tensor.datatype !== "BYTES") throw invalidArgument(`input '${name}' must hold strings`);
    const count = tensor.shape.reduce((product, dim) => product * dim, 1);
    const first = Math.floor(count / this.#numRows) * this.#row;
    const view = new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
    let at = 0; // the protocols have checked that the lengths add up
    for (let i = 0; i < first; i++) at += 4 + view.getUint32(at, true);
    const text = new TextDecoder().decode(tensor.data.subarray(at + 4, at + 4 + view.getUint32(at, true)));
    return text === "" ? undefined : text;
  }

  /** Undefined when the input is absent. */
  ints(name: string): Int32Array | undefined {
    const slice = this.#slice(name);
    if (slice === undefined) return undefined;
    const values = new Int32Array(slice.count);
    for (let i = 0; i < slice.count; i++) values[i] = Number(slice.read(i));
    return values;
  }

  /** 64-bit numbers without a sign. Undefined when the input is absent. */
  bigints(name: string): BigUint64Array | undefined {
    const slice = this.#slice(name);
    if (slice === undefined) return undefined;
    const values = new BigUint64Array(slice.count);
    for (let i = 0; i < slice.count; i++) values[i] = BigInt.asUintN(64, BigInt(slice.read(i)));
    return values;
  }

  floats(name: string): Float32Array | undefined {
    const slice = this.#slice(name);
    if (slice === undefined) return undefined;
    const words = this.#halves(name, slice.count);
    if (words !== undefined) return widenFp16(words);
    const values = new Float32Array(slice.count);
    for (let i = 0; i < slice.count; i++) values[i] = Number(slice.read(i));
    return values;
  }

  /** Embeddings and adapters are millions of these; undefined for another datatype. */
  #halves(name: string, count: number): Uint16Array | undefined {
    const tensor = this.#tensors.get(name);
    if (tensor?.datatype !== "FP16") return undefined;
    const start = this.#row * count * 2;
    const copy = new Uint8Array(tensor.data.subarray(start, start + count * 2)); // which lies at an even address
    return new Uint16Array(copy.buffer);
  }

  /** Last dimension but one of the input: the rows of a matrix. */
  matrixRows(name: string): number {
    return this.#tensors.get(name)?.shape.at(-2) ?? 0;
  }

  #first(names: readonly string[]): number | bigint | undefined {
    for (const name of names) {
      const slice = this.#slice(name);
      if (slice !== undefined && slice.count > 0) return slice.read(0);
    }
    return undefined;
  }

  #slice(name: string): { count: number; read: (index: number) => number | bigint } | undefined {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) return undefined;
    if (tensor.datatype === "BYTES") throw invalidArgument(`input '${name}' must hold numbers`);
    const size = elementSize(tensor.datatype);
    const count = Math.floor(tensor.data.length / size / this.#numRows);
    const start = this.#row * count * size;
    const view = new DataView(tensor.data.buffer, tensor.data.byteOffset + start, count * size);
    const read = READERS[tensor.datatype];
    return { count, read: (index) => read(view, index * size) };
  }
}

type Read = (view: DataView, at: number) => number | bigint;

const READERS: Readonly<Record<Exclude<Tensor["datatype"], "BYTES">, Read>> = {
  BOOL: (view, at) => view.getUint8(at),
  UINT8: (view, at) => view.getUint8(at),
  UINT16: (view, at) => view.getUint16(at, true),
  UINT32: (view, at) => view.getUint32(at, true),
  UINT64: (view, at) => view.getBigUint64(at, true),
  INT8: (view, at) => view.getInt8(at),
  INT16: (view, at) => view.getInt16(at, true),
  INT32: (view, at) => view.getInt32(at, true),
  INT64: (view, at) => view.getBigInt64(at, true),
  FP16: (view, at) => fp16ToNumber(view.getUint16(at, true)),
  BF16: (view, at) => bf16ToNumber(view.getUint16(at, true)),
  FP32: (view, at) => view.getFloat32(at, true),
  FP64: (view, at) => view.getFloat64(at, true),
};
