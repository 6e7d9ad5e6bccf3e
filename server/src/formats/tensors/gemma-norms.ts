/**
 * Gemma's RMSNorm weights: TensorRT-LLM checkpoints store 1 + weight, Hugging Face stores weight. Subtracts the one, in
 * FP32. Source: Gemma modeling code of transformers.
 */
import { readFloats } from "./read-floats.ts";
import { expectTensorRange, type StoredTensor, type TensorSource, tensorBytes } from "./tensor-source.ts";

export class GemmaNormTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #source: TensorSource;
  readonly #names: ReadonlySet<string>;

  /** Takes ownership of the source. */
  constructor(source: TensorSource, names: readonly string[]) {
    this.#source = source;
    this.#names = new Set(names);
    this.tensors = new Map([...source.tensors].map(([name, tensor]) => [name, this.#changed(tensor)]));
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    if (!this.#names.has(name)) {
      await this.#source.read(name, into, byteOffset);
      return;
    }
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const values = (await readFloats(this.#source, name)).map((value) => value - 1);
    into.set(new Uint8Array(values.buffer, byteOffset, into.byteLength));
  }

  async close(): Promise<void> {
    await this.#source.close();
  }

  #changed(tensor: StoredTensor): StoredTensor {
    if (!this.#names.has(tensor.name)) return tensor;
    if (["F32", "F16", "BF16"].includes(tensor.dtype)) {
      return { ...tensor, dtype: "F32", byteLength: tensorBytes("F32", tensor.shape) };
    }
    throw new Error(`tensor "${tensor.name}": expected F32, F16 or BF16, got ${tensor.dtype}`);
  }
}
