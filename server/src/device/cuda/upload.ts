/**
 * Brings bytes to the device through two pieces of pinned memory: one is filled while the other is copied. Knows where
 * bytes go, not what they are.
 */
import type { CudaDevice } from "./cuda-device.ts";
import type { PinnedBuffer } from "./cuda-memory.ts";
import type { CudaEvent } from "./cuda-stream.ts";
import type { DevicePointer } from "./kernel-stream.ts";

export const UPLOAD_PIECE_BYTES: number = 32 << 20;

interface Stage {
  readonly pinned: PinnedBuffer;
  readonly copied: CudaEvent;
}

export class Upload {
  readonly #device: CudaDevice;
  readonly #pieceBytes: number;
  readonly #stages: readonly Stage[];
  #next = 0;

  constructor(device: CudaDevice, pieceBytes: number = UPLOAD_PIECE_BYTES) {
    this.#device = device;
    this.#pieceBytes = pieceBytes;
    this.#stages = [0, 1].map(() => ({ pinned: device.pin(pieceBytes), copied: device.event() }));
    for (const { copied } of this.#stages) copied.record(device.stream);
  }

  /** `fill` writes the `numBytes` bytes, at most a piece, that go to `to`. */
  async write(to: DevicePointer, numBytes: number, fill: (bytes: Uint8Array) => Promise<void> | void): Promise<void> {
    const stage = this.#stages[this.#next];
    if (stage === undefined || numBytes > this.#pieceBytes) throw new Error(`an upload of ${numBytes} bytes at once`);
    this.#next = (this.#next + 1) % this.#stages.length;
    await stage.copied.passed("copying weights to the device");
    await fill(stage.pinned.bytes.subarray(0, numBytes));
    this.#device.stream.copyToDevice(to, stage.pinned.address, numBytes);
    stage.copied.record(this.#device.stream);
  }

  /** Waits until all has arrived. */
  close(): void {
    this.#device.stream.synchronize();
    for (const { pinned, copied } of this.#stages) {
      pinned.close();
      copied.close();
    }
  }
}
