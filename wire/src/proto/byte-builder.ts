/**
 * Collects the bytes of one tensor from the pieces of repeated protobuf fields (protobuf encoding, "Repeated
 * Elements"). A single run of bytes is kept as the view that it came as.
 */
import { MAX_TENSOR_BYTES } from "../limits.ts";
import { ProtoError } from "./proto-reader.ts";

const FIRST_CAPACITY = 64;

export class ByteBuilder {
  #bytes: Uint8Array = new Uint8Array(0);
  #length = 0;
  /** The one run so far, not copied yet. */
  #run: Uint8Array | undefined;

  get length(): number {
    return this.#run?.length ?? this.#length;
  }

  addByte(value: number): void {
    this.reserve(1);
    this.#bytes[this.#length++] = value;
  }

  /** Little-endian. */
  addUint32(value: number): void {
    this.reserve(4);
    const bytes = this.#bytes;
    const at = this.#length;
    bytes[at] = value;
    bytes[at + 1] = value >>> 8;
    bytes[at + 2] = value >>> 16;
    bytes[at + 3] = value >>> 24;
    this.#length = at + 4;
  }

  /** Adds bytes without a copy. They must not change while the result of `finish()` is in use. */
  addRun(run: Uint8Array): void {
    if (this.length === 0) {
      this.#run = run;
      return;
    }
    this.reserve(run.length);
    this.#bytes.set(run, this.#length);
    this.#length += run.length;
  }

  /** Adds an element with its length in front. */
  addElement(element: Uint8Array): void {
    this.reserve(4 + element.length);
    this.addUint32(element.length);
    this.#bytes.set(element, this.#length);
    this.#length += element.length;
  }

  /** Makes room for that many bytes more. */
  reserve(more: number): void {
    const run = this.#run;
    const needed = (run?.length ?? this.#length) + more;
    if (needed > MAX_TENSOR_BYTES)
      throw new ProtoError(`tensor contents take ${needed} bytes or more, expected at most ${MAX_TENSOR_BYTES}`);
    if (run === undefined && needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, Math.min(this.#bytes.length * 2, MAX_TENSOR_BYTES), FIRST_CAPACITY));
    grown.set(run ?? this.#bytes.subarray(0, this.#length));
    this.#length = run?.length ?? this.#length;
    this.#run = undefined;
    this.#bytes = grown;
  }

  finish(): Uint8Array {
    return this.#run ?? this.#bytes.subarray(0, this.#length);
  }
}
