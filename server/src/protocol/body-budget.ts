/**
 * Bounds the bytes that the bodies of all requests hold together. Each body is bounded by itself, but a thousand of
 * them would still fill the machine. Numbers only; the caller refuses. Source: own design.
 */
import { totalmem } from "node:os";
import process from "node:process";

/** The rest is for models, their runs and answers. */
const SHARE_OF_MEMORY = 0.5;
const MIN_BYTES: number = 256 * 1024 * 1024;

export class BodyBudget {
  readonly maxBytes: number;
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** @returns false when there is no room: then nothing is taken */
  take(numBytes: number): boolean {
    if (this.#heldBytes + numBytes > this.maxBytes) return false;
    this.#heldBytes += numBytes;
    return true;
  }

  give(numBytes: number): void {
    this.#heldBytes -= numBytes;
  }
}

/** `limitBytes`: of the control group, undefined or larger than the machine when there is none. */
export function bodyBudgetBytes(machineBytes: number, limitBytes: number | undefined): number {
  const hasLimit = limitBytes !== undefined && limitBytes > 0 && limitBytes < machineBytes;
  return Math.max(MIN_BYTES, Math.floor((hasLimit ? limitBytes : machineBytes) * SHARE_OF_MEMORY));
}

/** For this process on this machine. */
export function defaultBodyBudget(): BodyBudget {
  return new BodyBudget(bodyBudgetBytes(totalmem(), process.constrainedMemory()));
}
