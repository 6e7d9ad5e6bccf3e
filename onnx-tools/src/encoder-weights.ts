/** The weights of an encoder by Hugging Face names, read as floats on demand. It knows no graph. */

import { ToolError } from "@nereid/server/files/tool-error";
import type { LazyBytes } from "@nereid/server/formats/protobuf/writer";
import { readFloats } from "@nereid/server/formats/tensors/read-floats";
import type { Safetensors } from "@nereid/server/formats/tensors/safetensors";

export interface Weight {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: LazyBytes;
}

const FLOAT_TYPES: ReadonlySet<string> = new Set(["F32", "F16", "BF16"]);
const FLOAT_BYTES = 4;

export class EncoderWeights {
  readonly #source: Safetensors;
  readonly #prefix: string;

  /** `prefixes`: possible prefixes of the names; `known`: a weight that every such model has. */
  constructor(source: Safetensors, prefixes: readonly string[], known: string) {
    const prefix = prefixes.find((each) => source.tensors.has(`${each}${known}`));
    if (prefix === undefined) {
      const tried = prefixes.map((each) => `${each}${known}`).join(" or ");
      throw new ToolError(`The safetensors files have no tensor ${tried}`, {
        fix: "Name the folder of the whole model",
      });
    }
    this.#source = source;
    this.#prefix = prefix;
  }

  /** With another prefix: for weights outside the encoder. */
  has(name: string): boolean {
    return this.#source.tensors.has(`${this.#prefix}${name}`);
  }

  /** @throws ToolError when it is missing, or of another shape; -1 stands for any size */
  get(name: string, expected: readonly number[]): Weight {
    const { fullName, shape, numBytes } = this.#find(name, expected);
    const load = async (): Promise<Uint8Array> => bytesOf(await readFloats(this.#source, fullName));
    return { name: fullName, dims: shape, data: { byteLength: numBytes, load } };
  }

  /** A transposed matrix: Hugging Face stores [outputs, inputs], MatMul takes [inputs, outputs]. */
  transposed(name: string, [rows, columns]: readonly [rows: number, columns: number]): Weight {
    const { fullName, numBytes } = this.#find(name, [rows, columns]);
    const load = async (): Promise<Uint8Array> =>
      bytesOf(transpose(await readFloats(this.#source, fullName), rows, columns));
    return { name: fullName, dims: [columns, rows], data: { byteLength: numBytes, load } };
  }

  #find(name: string, expected: readonly number[]): { fullName: string; shape: readonly number[]; numBytes: number } {
    const fullName = `${this.#prefix}${name}`;
    const tensor = this.#source.tensors.get(fullName);
    if (tensor === undefined) throw new ToolError(`The safetensors files have no tensor ${fullName}`);
    const { shape, dtype } = tensor;
    const fits = shape.length === expected.length && expected.every((size, axis) => size < 0 || size === shape[axis]);
    if (!fits || !FLOAT_TYPES.has(dtype)) {
      const wanted = `F32, F16 or BF16 [${expected.map((size) => (size < 0 ? "any" : size)).join(", ")}]`;
      throw new ToolError(`Tensor ${fullName}: expected ${wanted}, got ${dtype} [${shape.join(", ")}]`, {
        fix: "config.json and the safetensors files must be of one model, and that not quantized",
      });
    }
    return { fullName, shape, numBytes: shape.reduce((product, size) => product * size, FLOAT_BYTES) };
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

export function transpose(values: Float32Array, rows: number, columns: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      out[column * rows + row] = values[row * columns + column] ?? 0;
    }
  }
  return out;
}
