/**
 * Opens a Nereid engine file: weights in the exact bytes that the device keeps, read in order and verified while
 * reading. Source: engine-header.ts defines the format.
 */
import { type FileHandle, open } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { readFully } from "../tensors/read-fully.ts";
import { expectTensorRange, type IntegerTensor, type TensorSource } from "../tensors/tensor-source.ts";
import {
  ENGINE_PREFIX_BYTES,
  type EngineGemm,
  type EngineHeader,
  type EngineTarget,
  type EngineTensor,
  type EngineThreads,
  parseEngineHeader,
  parseEnginePrefix,
} from "./engine-header.ts";
import { engineIntegers, matrixTensor } from "./engine-integers.ts";

/** Tensors as the device has them: several Hugging Face tensors in one, under the name of the first. */
export interface PackedTensors extends TensorSource {
  readonly tensors: ReadonlyMap<string, EngineTensor>;
  readonly target: EngineTarget;
  readonly threads: EngineThreads | undefined;
  readonly matrices: EngineHeader["matrices"];
  readonly products: readonly EngineGemm[];
  readonly path: string;
}

export function isPackedTensors(source: TensorSource): source is PackedTensors {
  return source instanceof EngineFile;
}

/** @throws Error naming the file and what is wrong with it */
export async function openEngineFile(path: string): Promise<PackedTensors> {
  const handle = await open(path, "r").catch((cause: unknown) => {
    throw new Error(`${path}: expected an engine file`, { cause });
  });
  try {
    return new EngineFile(handle, await readHeader(handle, path), path);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function readHeader(handle: FileHandle, path: string): Promise<EngineHeader> {
  const { size } = await handle.stat();
  const start = new Uint8Array(Math.min(ENGINE_PREFIX_BYTES, size));
  await readFully(handle, start, 0, path);
  const prefix = parseEnginePrefix(start, size, path);
  const json = new Uint8Array(prefix.headerBytes);
  await readFully(handle, json, ENGINE_PREFIX_BYTES, path);
  if (crc32(json) !== prefix.crc32) throw new Error(`${path}: the header is damaged: its checksum does not fit`);
  return parseEngineHeader(Buffer.from(json).toString("utf8"), size, path);
}

/** Updates the running checksum of a tensor that is read from its start. */
interface Progress {
  byteOffset: number;
  crc32: number;
}

class EngineFile implements PackedTensors {
  readonly tensors: ReadonlyMap<string, EngineTensor>;
  readonly target: EngineTarget;
  readonly threads: EngineThreads | undefined;
  readonly matrices: EngineHeader["matrices"];
  readonly products: readonly EngineGemm[];
  readonly integers: ReadonlyMap<string, IntegerTensor>;
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #progress = new Map<string, Progress>();

  constructor(
    handle: FileHandle,
    { target, threads, matrices, products = [], integers = [], tensors }: EngineHeader,
    path: string,
  ) {
    this.target = target;
    this.threads = threads;
    this.matrices = matrices;
    this.products = products;
    const int4 = integers.map((matrix) => [matrix.name, matrixTensor(matrix)] as const);
    this.tensors = new Map([...tensors.map((tensor) => [tensor.name, tensor] as const), ...int4]);
    this.integers = new Map(integers.map((matrix) => [matrix.name, engineIntegers(matrix, this)]));
    this.#handle = handle;
    this.path = path;
  }

  /** A tensor that is read sequentially has its checksum compared at its end. */
  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const tensor = this.tensors.get(name);
    if (tensor === undefined) return;
    if (this.integers.has(name))
      throw new Error(`${this.path}: "${name}" is a matrix of integers, which no floats are`);
    await readFully(this.#handle, into, tensor.offset + byteOffset, this.path);
    this.#sumUp(tensor, into, byteOffset);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  #sumUp(tensor: EngineTensor, bytes: Uint8Array, byteOffset: number): void {
    const before = byteOffset === 0 ? { byteOffset: 0, crc32: 0 } : this.#progress.get(tensor.name);
    if (before?.byteOffset !== byteOffset) return;
    const next = { byteOffset: byteOffset + bytes.byteLength, crc32: crc32(bytes, before.crc32) };
    this.#progress.set(tensor.name, next);
    if (next.byteOffset < tensor.byteLength || next.crc32 === tensor.crc32) return;
    throw new Error(
      `${this.path}: tensor "${tensor.name}" is damaged: its checksum does not fit; build the engine again`,
    );
  }
}
