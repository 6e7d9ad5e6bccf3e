/**
 * Notices a client that began a frame or a field block and does not end it (RFC 9113, 10.5): such a connection looks busy and
 * holds a descriptor. Data frames are no concern: their pieces are handed on as they come.
 */

/** How far the client has come. */
export interface FrameProgress {
  /** Bytes of a frame have come, and not all. */
  readonly isHalf: boolean;
  /** Frames that have come whole. */
  readonly numFrames: number;
}

/** A whole frame of control has at most 256 KiB. */
export const MAX_HALF_MS = 60_000;

export class HalfFrameWatch {
  readonly #progress: FrameProgress;
  readonly #onStuck: () => void;
  readonly #limitMs: number;
  #timer: NodeJS.Timeout | undefined;
  #numFrames = 0;

  constructor(progress: FrameProgress, onStuck: () => void, limitMs: number = MAX_HALF_MS) {
    this.#progress = progress;
    this.#onStuck = onStuck;
    this.#limitMs = limitMs;
  }

  /** Bytes have come. */
  look(): void {
    if (this.#timer !== undefined || !this.#progress.isHalf) return;
    this.#numFrames = this.#progress.numFrames;
    this.#timer = setTimeout(() => this.#judge(), this.#limitMs).unref();
  }

  #judge(): void {
    this.#timer = undefined;
    const { isHalf, numFrames } = this.#progress;
    if (isHalf && numFrames === this.#numFrames) this.#onStuck();
    else this.look();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
