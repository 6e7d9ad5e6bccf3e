/**
 * A persistent small tensor: its handle and memory are reused while type and shape stay the same. Copying some hundred
 * bytes is cheaper than creating a tensor. Belongs to one position of one frame.
 */
import type { Tensor } from "../../core/tensor.ts";
import type { Address } from "../ffi.ts";

/** Larger tensors are used in place. */
export const MAX_SMALL_BYTES = 2048;

export class SmallValue {
  /** Memory that never moves: C holds the address. */
  readonly memory: Uint8Array = Buffer.allocUnsafeSlow(MAX_SMALL_BYTES);
  /** 0: not created. */
  handle: Address = 0n;
  #datatype: Tensor["datatype"] = "INT32";
  #shape: readonly number[] = [];

  fits({ datatype, shape }: Tensor): boolean {
    const own = this.#shape;
    if (this.handle === 0n || datatype !== this.#datatype || shape.length !== own.length) return false;
    for (let axis = 0; axis < own.length; axis++) if (shape[axis] !== own[axis]) return false;
    return true;
  }

  /** Stores the type and shape of the handle created on `memory`. */
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
