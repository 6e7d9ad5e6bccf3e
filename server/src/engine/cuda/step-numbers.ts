/** Memory for the numbers of steps: pinned pieces, one for each step under way, and one that the device reads. It grows. */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer, PinnedBuffer } from "../../device/cuda/cuda-memory.ts";

const WORD_BYTES = 4;

interface Pieces {
  readonly pinned: readonly PinnedBuffer[];
  readonly numWords: number;
  readonly buffer: CudaBuffer;
}

/** Longer sequences make the memory grow. */
const USUAL_POSITIONS = 8192;
/** A tile of rows with an adapter has an address and 8 rows; of recorded steps, which round up, each row has one. */
const WORDS_OF_TILE = 12;

export function usualStepWords(
  runner: { readonly blockSize: number; readonly hasAxes: boolean; readonly adapters: unknown },
  bounds: { readonly maxTokens: number; readonly maxSequences: number; readonly maxPositions: number },
): number {
  const tileWords = runner.adapters === undefined ? 0 : WORDS_OF_TILE;
  const blockWords = 2 * Math.ceil(Math.min(bounds.maxPositions, USUAL_POSITIONS) / runner.blockSize);
  return (runner.hasAxes ? 7 : 4) * bounds.maxTokens + bounds.maxSequences * (8 + tileWords + blockWords);
}

export class StepNumbers {
  readonly #device: CudaDevice;
  readonly #usualWords: number;
  readonly #numSlots: number;
  #pieces: Pieces | undefined;

  /** @param usualWords size that most steps do with */
  constructor(device: CudaDevice, usualWords: number, numSlots: number) {
    this.#device = device;
    this.#usualWords = usualWords;
    this.#numSlots = numSlots;
  }

  /**
   * Room for `length` words of the step in a slot.
   * @param beforeMove called when the device's memory is about to move: what remembers its address must go
   */
  reserve(
    length: number,
    slot: number,
    beforeMove: () => void,
  ): { readonly pinned: PinnedBuffer; readonly buffer: CudaBuffer } {
    let pieces = this.#pieces;
    if (pieces === undefined || pieces.numWords < length) {
      this.#device.stream.synchronize();
      beforeMove();
      this.close();
      const numBytes = WORD_BYTES * Math.max(length, this.#usualWords);
      const pinned = Array.from({ length: this.#numSlots }, () => this.#device.pin(numBytes));
      const buffer = this.#device.allocate("the numbers of a step", numBytes);
      pieces = { pinned, numWords: numBytes / WORD_BYTES, buffer };
      this.#pieces = pieces;
    }
    const pinned = pieces.pinned[slot];
    if (pinned === undefined) throw new Error("a step without a place for its numbers");
    return { pinned, buffer: pieces.buffer };
  }

  close(): void {
    for (const pinned of this.#pieces?.pinned ?? []) pinned.close();
    this.#pieces?.buffer.close();
    this.#pieces = undefined;
  }
}
