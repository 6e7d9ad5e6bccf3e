/** Cuts a byte stream into length-prefixed messages. Small messages are views of what came, big ones are put together once. */

const LENGTH_BYTES = 4;
/** Tensors of one message together; as large as the largest gRPC message. */
export const MAX_STUB_MESSAGE_BYTES: number = 2 ** 31 - 1;

export class FrameAssembler {
  readonly #deliver: (body: Buffer) => void;
  /** Bytes of an incomplete length. */
  #head: Buffer = Buffer.alloc(0);
  #body: Buffer | undefined;
  #filled = 0;

  constructor(deliver: (body: Buffer) => void) {
    this.#deliver = deliver;
  }

  /** @throws RangeError when a message is larger than the limit */
  push(chunk: Buffer): void {
    let rest = this.#continue(chunk);
    if (rest.length > 0 && this.#head.length > 0) {
      rest = Buffer.concat([this.#head, rest]);
      this.#head = Buffer.alloc(0);
    }
    while (rest.length >= LENGTH_BYTES) {
      const size = rest.readUInt32LE(0);
      if (size > MAX_STUB_MESSAGE_BYTES) {
        throw new RangeError(`message of ${size} bytes, the limit is ${MAX_STUB_MESSAGE_BYTES}`);
      }
      const end = LENGTH_BYTES + size;
      if (rest.length < end) {
        this.#body = Buffer.allocUnsafe(size);
        this.#filled = rest.copy(this.#body, 0, LENGTH_BYTES);
        return;
      }
      this.#deliver(rest.subarray(LENGTH_BYTES, end));
      rest = rest.subarray(end);
    }
    if (rest.length > 0) this.#head = rest;
  }

  /** Fills the current message; returns the rest of the chunk. */
  #continue(chunk: Buffer): Buffer {
    const body = this.#body;
    if (body === undefined) return chunk;
    const copied = chunk.copy(body, this.#filled);
    this.#filled += copied;
    if (this.#filled < body.length) return chunk.subarray(copied);
    this.#body = undefined;
    this.#deliver(body);
    return chunk.subarray(copied);
  }
}
