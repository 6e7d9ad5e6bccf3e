/** The adapters in the memory of a GPU, by number. It decides nothing: the caller that loads one also unloads it. */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { convertFloats } from "../../device/cuda/convert-floats.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { Upload } from "../../device/cuda/upload.ts";
import type { LoraAdapter, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import { type CudaLoraMatrix, planCudaLora } from "../../models/cuda/lora.ts";
import { checkAdapters } from "../request/check-adapters.ts";
import type { AdapterMemory, StepSequence } from "../step-runner.ts";

/** Data of an adapter that steps need. */
export interface PlacedAdapter {
  readonly address: DevicePointer;
  readonly maxRank: number;
}

type Loaded = PlacedAdapter & { readonly buffer: CudaBuffer };

const PIECE_BYTES: number = 4 << 20;
/** Drivers give memory in pieces of this size, except for what is small. */
const PAGE_BYTES: number = 2 << 20;

export class CudaAdapters implements AdapterMemory {
  readonly targets: LoraTargets;
  readonly #device: CudaDevice;
  readonly #type: ElemType;
  readonly #numLayers: number;
  readonly #loaded = new Map<number, Loaded>();
  #upload: Upload | undefined;
  #loads: Promise<unknown> = Promise.resolve();
  #nextId = 1;
  #isClosed = false;

  /** `numLayers`: of this GPU, where others have the rest; what it loads then are parts of adapters. */
  constructor(device: CudaDevice, targets: LoraTargets, type: ElemType, numLayers: number) {
    this.#device = device;
    this.targets = targets;
    this.#numLayers = numLayers;
    this.#type = type;
  }

  get loaded(): ReadonlyMap<number, PlacedAdapter> {
    return this.#loaded;
  }

  bytesOf(adapter: LoraAdapter): number {
    const { numBytes } = planCudaLora(adapter, this.#numLayers, this.#type);
    return numBytes < PAGE_BYTES / 2 ? numBytes : Math.ceil(numBytes / PAGE_BYTES) * PAGE_BYTES;
  }

  /** One after the other: loads share the memory that they go through. */
  load(adapter: LoraAdapter): Promise<number> {
    const loaded = this.#loads.then(() => this.#load(adapter));
    this.#loads = loaded.catch(() => undefined);
    return loaded;
  }

  /** A step under way may still read it for a sequence that is over: the memory goes when the device is done. */
  unload(id: number): void {
    const adapter = this.#loaded.get(id);
    if (adapter === undefined) return;
    this.#loaded.delete(id);
    this.#device.stream.synchronize();
    adapter.buffer.close();
  }

  /** @throws Error naming the first sequence whose adapter is not there */
  check(sequences: readonly StepSequence[]): void {
    checkAdapters(sequences, this.#loaded);
  }

  /** A load under way ends first, for it writes to what goes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#loads;
    for (const id of [...this.#loaded.keys()]) this.unload(id);
    this.#upload?.close();
  }

  async #load(adapter: LoraAdapter): Promise<number> {
    this.#expectOpen();
    const plan = planCudaLora(adapter, this.#numLayers, this.#type);
    const buffer = this.#device.allocate("an adapter", plan.numBytes);
    try {
      await this.#write(buffer.address, plan.describe(buffer.address), plan.matrices);
    } catch (error) {
      this.#device.stream.synchronize();
      buffer.close();
      throw error;
    }
    const id = this.#nextId++;
    this.#loaded.set(id, { address: buffer.address, maxRank: plan.maxRank, buffer });
    return id;
  }

  #expectOpen(): void {
    if (this.#isClosed) throw new Error("the step runner is closed");
  }

  async #write(base: DevicePointer, table: Uint8Array, matrices: readonly CudaLoraMatrix[]): Promise<void> {
    this.#upload ??= new Upload(this.#device, PIECE_BYTES);
    const upload = this.#upload;
    for (let at = 0; at < table.length; at += PIECE_BYTES) {
      const piece = table.subarray(at, at + PIECE_BYTES);
      await upload.write(base + BigInt(at), piece.length, (bytes) => bytes.set(piece));
    }
    for (const matrix of matrices) {
      const rowBytes = matrix.paddedWidth * ELEM_BYTES[this.#type];
      const numRows = Math.max(1, Math.floor(PIECE_BYTES / rowBytes));
      for (let first = 0; first < matrix.paddedRows; first += numRows) {
        const count = Math.min(numRows, matrix.paddedRows - first);
        const to = base + BigInt(matrix.offset + first * rowBytes);
        await upload.write(to, count * rowBytes, (bytes) => encodeRows(matrix, first, this.#type, bytes));
      }
      // Steps go on between the matrices of a large adapter.
      await new Promise<void>((resolve) => setImmediate(resolve));
      this.#expectOpen();
    }
  }
}

/** Fills `bytes` with the rows from `first` on. */
export function encodeRows(
  { values, width, paddedWidth }: CudaLoraMatrix,
  first: number,
  type: ElemType,
  bytes: Uint8Array,
): void {
  bytes.fill(0);
  const elementBytes = ELEM_BYTES[type];
  const numRows = bytes.length / (paddedWidth * elementBytes);
  // Rows that are not filled up lie side by side.
  const runRows = width === paddedWidth ? numRows : 1;
  for (let row = 0; row < numRows; row += runRows) {
    const own = values.subarray((first + row) * width, (first + row + runRows) * width);
    const from = new Uint8Array(own.buffer, own.byteOffset, own.byteLength);
    const to = bytes.subarray(
      row * paddedWidth * elementBytes,
      row * paddedWidth * elementBytes + own.length * elementBytes,
    );
    if (type === "f32") to.set(from);
    else if (own.length > 0) convertFloats("F32", from, type, to);
  }
}
