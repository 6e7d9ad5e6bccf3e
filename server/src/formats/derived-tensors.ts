/** Tensors that are others turned round, or less one: computed when first read and kept until another one is. */
import { readFloats } from "./read-floats.ts";
import { expectTensorRange, rowBytes, type StoredTensor, type TensorSource, tensorBytes } from "./tensor-source.ts";

export interface TensorDerivation {
  readonly name: string;
  /** Of a matrix; of a list, which becomes f32. */
  readonly change: "transpose" | "less-one";
}

/** The tensors of `source`, with those that are named changed. */
export class DerivedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #source: TensorSource;
  readonly #changes: ReadonlyMap<string, TensorDerivation["change"]>;
  #last: { readonly name: string; readonly bytes: Promise<Uint8Array> } | undefined;

  /** Takes over the source. */
  constructor(source: TensorSource, derivations: readonly TensorDerivation[]) {
    this.#source = source;
    this.#changes = new Map(derivations.map(({ name, change }) => [name, change]));
    this.tensors = new Map([...source.tensors].map(([name, tensor]) => [name, this.#changed(tensor)]));
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const change = this.#changes.get(name);
    if (change === undefined) {
      await this.#source.read(name, into, byteOffset);
      return;
    }
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    if (this.#last?.name !== name) this.#last = { name, bytes: this.#derive(name, change) };
    const bytes = await this.#last.bytes;
    into.set(bytes.subarray(byteOffset, byteOffset + into.byteLength));
  }

  async close(): Promise<void> {
    this.#last = undefined;
    await this.#source.close();
  }

  #changed(tensor: StoredTensor): StoredTensor {
    const change = this.#changes.get(tensor.name);
    if (change === undefined) return tensor;
    if (change === "transpose") return { ...tensor, shape: [...tensor.shape].reverse() };
    return { ...tensor, dtype: "F32", byteLength: tensorBytes("F32", tensor.shape) };
  }

  async #derive(name: string, change: TensorDerivation["change"]): Promise<Uint8Array> {
    const stored = this.#source.tensors.get(name);
    if (stored === undefined) throw new Error(`the model has no tensor "${name}"`);
    if (change === "less-one") return lessOne(this.#source, stored);
    const bytes = new Uint8Array(stored.byteLength);
    await this.#source.read(name, bytes);
    return transposed(stored, bytes);
  }
}

function transposed({ name, dtype, shape }: StoredTensor, bytes: Uint8Array): Uint8Array {
  const [rows = 0, columns = 0] = shape;
  const size = rowBytes(dtype, 1);
  if (size !== 2 && size !== 4) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${dtype}`);
  const from = size === 2 ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
  const to = size === 2 ? new Uint16Array(from.length) : new Uint32Array(from.length);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) to[column * rows + row] = from[row * columns + column] ?? 0;
  }
  return new Uint8Array(to.buffer);
}

async function lessOne(source: TensorSource, { name, dtype }: StoredTensor): Promise<Uint8Array> {
  if (!["F32", "F16", "BF16"].includes(dtype)) {
    throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${dtype}`);
  }
  const values = await readFloats(source, name);
  return new Uint8Array(values.map((value) => value - 1).buffer);
}
