/**
 * Rows of logits of one step on their way to the host: those whose tokens the engine chooses itself. The memory grows when
 * needed.
 */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { PinnedBuffer } from "../../device/cuda/cuda-memory.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";

const MIN_ROWS = 8;

export class SeenLogits {
  readonly #device: CudaDevice;
  /** f32 [rows, vocabSize] on the device. */
  readonly #logits: DevicePointer;
  readonly #vocabSize: number;
  #pinned: PinnedBuffer | undefined;

  constructor(device: CudaDevice, logits: DevicePointer, vocabSize: number) {
    this.#device = device;
    this.#logits = logits;
    this.#vocabSize = vocabSize;
  }

  /** Enqueues the copy of `count` rows, from `from` on, to place `to` among the `total` rows that the step wants. */
  copy(to: number, count: number, total: number, from = 0): void {
    const rowBytes = 4 * this.#vocabSize;
    const pinned = this.#reserve(total * rowBytes);
    const source = this.#logits + BigInt(from * rowBytes);
    this.#device.stream.copyToHost(pinned.address + BigInt(to * rowBytes), source, count * rowBytes);
  }

  /** Enqueues the copies of the rows without a choice, a run of rows at a time. */
  copyUnchosen(choices: readonly unknown[]): void {
    const rows = choices.flatMap((choice, row) => (choice === undefined ? [row] : []));
    let first = 0;
    for (let i = 1; i <= rows.length; i++) {
      const from = rows[first] ?? 0;
      if (i < rows.length && rows[i] === from + i - first) continue;
      this.copy(first, i - first, rows.length, from);
      first = i;
    }
  }

  /** [numRows, vocabSize] of the last step, once it is done. */
  rows(numRows: number): Float32Array {
    if (this.#pinned === undefined || numRows === 0) return new Float32Array(0);
    const { buffer, byteOffset } = this.#pinned.bytes;
    return new Float32Array(buffer, byteOffset, numRows * this.#vocabSize);
  }

  close(): void {
    this.#pinned?.close();
  }

  #reserve(numBytes: number): PinnedBuffer {
    if (this.#pinned !== undefined && this.#pinned.bytes.byteLength >= numBytes) return this.#pinned;
    // The step that used it before is done.
    this.#pinned?.close();
    this.#pinned = this.#device.pin(Math.max(numBytes, MIN_ROWS * 4 * this.#vocabSize));
    return this.#pinned;
  }
}
