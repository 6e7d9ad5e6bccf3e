/** Many tensors in one buffer that changes threads without a copy: putting them in is the only one. Knows no message. */
import type { Tensor } from "../../core/tensor.ts";
import type { PackedTensor } from "./messages.ts";

/** Typed arrays over a tensor need its start at a multiple of their element. */
const ALIGNMENT = 8;

export class TensorPacker {
  readonly #sources: { readonly data: Uint8Array; readonly offset: number }[] = [];
  #size = 0;

  add({ name, datatype, shape, data }: Tensor): PackedTensor {
    const offset = this.#size;
    this.#sources.push({ data, offset });
    this.#size = Math.ceil((offset + data.length) / ALIGNMENT) * ALIGNMENT;
    return { name, datatype, shape, offset, size: data.length };
  }

  addAll(tensors: readonly Tensor[]): PackedTensor[] {
    return tensors.map((tensor) => this.add(tensor));
  }

  /** The buffer of all that was added, to be handed over. */
  finish(): ArrayBuffer {
    const buffer = new ArrayBuffer(this.#size);
    const bytes = new Uint8Array(buffer);
    for (const { data, offset } of this.#sources) bytes.set(data, offset);
    return buffer;
  }
}

export function unpackTensor({ name, datatype, shape, offset, size }: PackedTensor, buffer: ArrayBuffer): Tensor {
  return { name, datatype, shape, data: new Uint8Array(buffer, offset, size) };
}
