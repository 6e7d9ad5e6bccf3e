/**
 * Backoff for the float kernel (sources: see float-kernel.ts): arrays of other number forms are read and written
 * without it for a while.
 */
import { type FloatKernel, floatKernel } from "./float-kernel.ts";

/** The kernel does not pay for shorter arrays. */
const MIN_FLOATS = 256;
/** A call that handles fewer floats has met an array of another form... */
const MIN_YIELD = 16;
/** ...and the kernel is not tried for so many calls. */
const NUM_SKIPPED = 64;

export class FloatKernelBackoff {
  #skip = 0;

  /** The kernel for the next `numFloats`; undefined: do without it. */
  next(numFloats: number): FloatKernel | undefined {
    if (numFloats < MIN_FLOATS) return undefined;
    if (this.#skip === 0) return floatKernel();
    this.#skip -= 1;
    return undefined;
  }

  /** Reports that the kernel handled `done` of `numFloats`. */
  used(done: number, numFloats: number): void {
    if (done < MIN_YIELD && done < numFloats) this.#skip = NUM_SKIPPED;
  }
}
