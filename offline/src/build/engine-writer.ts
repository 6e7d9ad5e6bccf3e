/**
 * Writes an engine file: tensors in device layout, then the header with their checksums at the start. Format:
 * server/src/formats/trtllm/engine-header.ts.
 */

import { writeSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { crc32 } from "node:zlib";
import {
  ENGINE_FORMAT,
  ENGINE_MAGIC,
  ENGINE_PREFIX_BYTES,
  type EngineDtype,
  type EngineHeader,
  type EngineTarget,
  type EngineTensor,
  alignedOffset,
} from "@nereid/server/formats/trtllm/engine-header";
import { tensorBytes } from "@nereid/server/formats/tensors/tensor-source";

export type EngineTensorPlan = Pick<EngineTensor, "name" | "dtype" | "shape" | "layout">;

const LARGEST_CRC32 = 0xffff_ffff;

export function planEngine(
  tensors: readonly EngineTensorPlan[],
  target: EngineTarget,
  rest: Omit<EngineHeader, "target" | "tensors"> = {},
): EngineHeader {
  // Reserve space for the longest checksums, so that offsets do not depend on them.
  const draft = { target, ...rest, tensors: tensors.map((tensor) => placeAt(tensor, Number.MAX_SAFE_INTEGER)) };
  let end = alignedOffset(ENGINE_PREFIX_BYTES + Buffer.byteLength(JSON.stringify(draft)));
  const placed = tensors.map((tensor) => {
    const one = placeAt(tensor, end);
    end = alignedOffset(end + one.byteLength);
    return one;
  });
  return { target, ...rest, tensors: placed };
}

export function engineBytes({ tensors }: EngineHeader): number {
  const last = tensors.at(-1);
  return last === undefined ? ENGINE_PREFIX_BYTES : last.offset + last.byteLength;
}

function placeAt(tensor: EngineTensorPlan, offset: number): EngineTensor {
  const byteLength = tensorBytes(tensor.dtype as EngineDtype, tensor.shape);
  return { ...tensor, offset, byteLength, crc32: LARGEST_CRC32 };
}

export class EngineWriter implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #header: EngineHeader;
  readonly #checksums: number[] = [];

  private constructor(file: FileHandle, header: EngineHeader) {
    this.#file = file;
    this.#header = header;
  }

  static async create(path: string, header: EngineHeader): Promise<EngineWriter> {
    return new EngineWriter(await open(path, "w"), header);
  }

  /** Takes the bytes of a tensor in order; call `end()` after the last. */
  writer(index: number): { write(piece: Uint8Array | Float32Array): void; end(): void } {
    const tensor = this.#header.tensors[index];
    if (tensor === undefined) throw new Error(`expected a tensor at ${index}`);
    let written = 0;
    let sum = 0;
    return {
      write: (piece) => {
        const bytes = new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
        sum = crc32(bytes, sum);
        writeFully(this.#file.fd, bytes, tensor.offset + written);
        written += bytes.byteLength;
      },
      end: () => {
        if (written !== tensor.byteLength) {
          throw new Error(`tensor "${tensor.name}": expected ${tensor.byteLength} bytes, got ${written}`);
        }
        this.#checksums[index] = sum;
      },
    };
  }

  /** Writes the header; before that the file is invalid. */
  finish(): void {
    const tensors = this.#header.tensors.map((tensor, i) => ({ ...tensor, crc32: this.#checksumOf(i) }));
    const json = Buffer.from(JSON.stringify({ ...this.#header, tensors }));
    const prefix = Buffer.alloc(ENGINE_PREFIX_BYTES);
    prefix.write(ENGINE_MAGIC, "latin1");
    prefix.writeUInt32LE(ENGINE_FORMAT, 8);
    prefix.writeUInt32LE(crc32(json), 12);
    prefix.writeBigUInt64LE(BigInt(json.length), 16);
    writeFully(this.#file.fd, Buffer.concat([prefix, json]), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }

  #checksumOf(index: number): number {
    const sum = this.#checksums[index];
    if (sum === undefined) throw new Error(`tensor ${index} was not written`);
    return sum;
  }
}

function writeFully(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.byteLength; ) {
    done += writeSync(fd, bytes, done, bytes.byteLength - done, position + done);
  }
}
