/** Memory that belongs to one step in flight, for as long as the device works on it. */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { PinnedBuffer } from "../../device/cuda/cuda-memory.ts";
import type { CudaEvent } from "../../device/cuda/cuda-stream.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { choiceBytes } from "../../models/cuda/choice-layout.ts";
import type { CudaPass } from "../../models/cuda/pass.ts";
import { SeenLogits } from "./seen-logits.ts";

const STAGING_BYTES = 1 << 16;
/** Copies begin at multiples of it. */
const ALIGNMENT = 256;

/** A step from its enqueueing on. */
export interface BegunStep {
  readonly slot: StepSlot;
  /** The slot of the step ahead, if one is under way. */
  readonly before: StepSlot | undefined;
  readonly enqueuedMs: number;
  /** Undefined: nothing is computed. */
  readonly pass: CudaPass | undefined;
}

export class StepSlot {
  readonly begun: CudaEvent;
  readonly done: CudaEvent;
  /** @see layOutChoice */
  readonly chosen: PinnedBuffer;
  readonly logits: SeenLogits;
  readonly #device: CudaDevice;
  /** Pieces of host memory, and the bytes used of the last one by this step. */
  #staging: PinnedBuffer[] = [];
  #numUsed = 0;

  constructor(
    device: CudaDevice,
    shape: { readonly logits: DevicePointer; readonly vocabSize: number; readonly maxLogitRows: number },
  ) {
    this.begun = device.event(true);
    this.done = device.event(true);
    this.chosen = device.pin(choiceBytes(shape.maxLogitRows, true));
    this.logits = new SeenLogits(device, shape.logits, shape.vocabSize);
    this.#device = device;
  }

  /** Begins a step. The one that used the slot before is done. */
  begin(): void {
    this.#numUsed = 0;
    if (this.#staging.length < 2) return;
    const numBytes = this.#staging.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
    this.#closeStaging();
    this.#staging = [this.#device.pin(numBytes)];
  }

  /** Enqueues the copy of arrays to one place behind the other; they may go at once. */
  upload(to: DevicePointer, ...arrays: readonly (Int32Array | Float32Array | Uint16Array)[]): void {
    const numBytes = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (numBytes === 0) return;
    const { bytes, address } = this.#reserve(numBytes);
    let at = this.#numUsed;
    for (const { buffer, byteOffset, byteLength } of arrays) {
      bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at);
      at += byteLength;
    }
    this.#device.stream.copyToDevice(to, address + BigInt(this.#numUsed), numBytes);
    this.#numUsed += Math.ceil(numBytes / ALIGNMENT) * ALIGNMENT;
  }

  close(): void {
    this.begun.close();
    this.done.close();
    this.chosen.close();
    this.logits.close();
    this.#closeStaging();
  }

  /** With room for as many bytes behind those that are used. */
  #reserve(numBytes: number): PinnedBuffer {
    const last = this.#staging.at(-1);
    if (last !== undefined && last.bytes.byteLength - this.#numUsed >= numBytes) return last;
    const added = this.#device.pin(Math.max(STAGING_BYTES, numBytes));
    this.#staging.push(added);
    this.#numUsed = 0;
    return added;
  }

  #closeStaging(): void {
    for (const pinned of this.#staging) pinned.close();
    this.#staging = [];
  }
}
