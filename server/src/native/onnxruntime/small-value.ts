/**
 * A small tensor that stays: its handle and its memory serve run after run for as long as type and shape are the same. Copying
 * some hundred bytes is cheaper than making a tensor of them and freeing it. Belongs to one frame, at one place of its inputs
 * or outputs.
 */
import type { Tensor } from "../../core/tensor.ts";
import type { Address } from "../ffi.ts";

/** Larger tensors are used where they lie. */
export const MAX_SMALL_BYTES = 2048;

export class SmallValue {
  /** Memory of its own, never moved: C knows the address. */
  readonly memory: Uint8Array = Buffer.allocUnsafeSlow(MAX_SMALL_BYTES);
  /** 0 = none was made. */
  handle: Address = 0n;
  #datatype: Tensor["datatype"] = "INT32";
  #shape: readonly number[] = [];

  fits({ datatype, shape }: Tensor): boolean {
    const own = this.#shape;
    if (this.handle === 0n || datatype !== this.#datatype || shape.length !== own.length) return false;
    for (let axis = 0; axis < own.length; axis++) if (shape[axis] !== own[axis]) return false;
    return true;
  }

  /** Remembers what the handle, made on `memory`, stands for. */
  made(handle: Address, { datatype, shape }: Tensor): void {
    this.handle = handle;
    this.#datatype = datatype;
    this.#shape = [...shape];
  }

  write(data: Uint8Array): void {
    this.memory.set(data);
  }

  read(target: Uint8Array): void {
    target.set(this.memory.subarray(0, target.length));
  }
}
