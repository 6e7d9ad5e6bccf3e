/** Memory that belongs to one step in flight, for as long as the device works on it. */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { PinnedBuffer } from "../../device/cuda/cuda-memory.ts";
import type { CudaEvent } from "../../device/cuda/cuda-stream.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { SeenLogits } from "./seen-logits.ts";

const MIN_STAGING_BYTES = 1 << 16;

export class StepSlot {
  readonly begun: CudaEvent;
  readonly done: CudaEvent;
  /** Tokens, then log-probabilities. */
  readonly chosen: PinnedBuffer;
  readonly logits: SeenLogits;
  readonly #device: CudaDevice;
  #staging: PinnedBuffer | undefined;

  constructor(
    device: CudaDevice,
    shape: { readonly logits: DevicePointer; readonly vocabSize: number; readonly maxLogitRows: number },
  ) {
    this.begun = device.event(true);
    this.done = device.event(true);
    this.chosen = device.pin(8 * shape.maxLogitRows);
    this.logits = new SeenLogits(device, shape.logits, shape.vocabSize);
    this.#device = device;
  }

  /** Enqueues copies of arrays that may go at once. Once a step: a second call writes over what the first one left. */
  upload(
    parts: readonly { readonly to: DevicePointer; readonly values: Int32Array | Float32Array | Uint16Array }[],
  ): void {
    const numBytes = parts.reduce((sum, { values }) => sum + values.byteLength, 0);
    const { bytes, address } = this.#reserve(numBytes);
    let at = 0;
    for (const { to, values } of parts) {
      bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
      this.#device.stream.copyToDevice(to, address + BigInt(at), values.byteLength);
      at += values.byteLength;
    }
  }

  close(): void {
    this.begun.close();
    this.done.close();
    this.chosen.close();
    this.logits.close();
    this.#staging?.close();
  }

  #reserve(numBytes: number): PinnedBuffer {
    const known = this.#staging;
    if (known !== undefined && known.bytes.byteLength >= numBytes) return known;
    known?.close();
    this.#staging = this.#device.pin(Math.max(MIN_STAGING_BYTES, numBytes));
    return this.#staging;
  }
}
