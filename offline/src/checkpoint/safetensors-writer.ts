/**
 * Writes a safetensors file in a streaming way: shapes first, then bytes, with one piece in memory. Source: safetensors
 * README, "Format". It knows no model.
 */
import { type FileHandle, open } from "node:fs/promises";
import { SAFETENSORS_DTYPE_BYTES, type SafetensorsDtype } from "@nereid/server/formats/tensors/safetensors-header";

export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
}

const ALIGNMENT_BYTES = 8;
const LENGTH_BYTES = 8;

export function planBytes({ dtype, shape }: SafetensorsEntry): number {
  return shape.reduce((product, size) => product * size, SAFETENSORS_DTYPE_BYTES[dtype]);
}

/** Length, JSON and padding before the first tensor. */
export function safetensorsHeader(
  tensors: readonly SafetensorsEntry[],
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  let end = 0;
  const entries = tensors.map((tensor) => {
    const begin = end;
    end += planBytes(tensor);
    return [tensor.name, { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [begin, end] }] as const;
  });
  const json = JSON.stringify(Object.fromEntries([["__metadata__", metadata], ...entries]));
  const text = Buffer.from(json);
  const padding = (ALIGNMENT_BYTES - (text.length % ALIGNMENT_BYTES)) % ALIGNMENT_BYTES;
  const header = Buffer.alloc(LENGTH_BYTES + text.length + padding, " ");
  header.writeBigUInt64LE(BigInt(text.length + padding));
  text.copy(header, LENGTH_BYTES);
  return header;
}

/** Tensors in planned order, each in any number of pieces. */
export class SafetensorsWriter implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #tensors: readonly SafetensorsEntry[];
  /** The current tensor, and its bytes so far. */
  #current = 0;
  #written = 0;
  #position: number;

  private constructor(file: FileHandle, tensors: readonly SafetensorsEntry[], headerBytes: number) {
    this.#file = file;
    this.#tensors = tensors;
    this.#position = headerBytes;
  }

  static async create(
    path: string,
    tensors: readonly SafetensorsEntry[],
    metadata: Readonly<Record<string, string>> = {},
  ): Promise<SafetensorsWriter> {
    const header = safetensorsHeader(tensors, metadata);
    const file = await open(path, "w");
    try {
      await writeFully(file, header, 0);
    } catch (error) {
      await file.close();
      throw error;
    }
    return new SafetensorsWriter(file, tensors, header.byteLength);
  }

  /** Bytes of `name`, which must be the next tensor. The array may be reused once the promise settles. */
  async write(name: string, bytes: Uint8Array): Promise<void> {
    const tensor = this.#tensors[this.#current];
    const size = tensor === undefined ? 0 : planBytes(tensor);
    if (tensor?.name !== name || this.#written + bytes.byteLength > size) {
      throw new Error(`"${name}": ${bytes.byteLength} bytes came where ${tensor?.name ?? "the end"} was expected`);
    }
    await writeFully(this.#file, bytes, this.#position);
    this.#position += bytes.byteLength;
    this.#written += bytes.byteLength;
    if (this.#written < size) return;
    this.#current++;
    this.#written = 0;
  }

  /** @throws Error when a tensor is incomplete */
  finish(): void {
    const tensor = this.#tensors[this.#current];
    if (tensor !== undefined) throw new Error(`"${tensor.name}" was not written whole`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}

async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.byteLength - done, position + done);
    done += bytesWritten;
  }
}
