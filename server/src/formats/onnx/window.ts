/**
 * A sliding window over a file too large to hold, for protobuf readers that skip most of it (protobuf encoding
 * specification).
 */
import type { FileHandle } from "node:fs/promises";

const WINDOW_BYTES = 65_536;

export class ByteWindow {
  readonly #file: FileHandle;
  readonly #size: number;
  readonly #buffer: Buffer = Buffer.alloc(WINDOW_BYTES);
  /** Range of the file that the buffer holds. */
  #start = 0;
  #end = 0;
  /** Position of the next byte; may be set anywhere within the file. */
  position = 0;

  constructor(file: FileHandle, size: number) {
    this.#file = file;
    this.#size = size;
  }

  /** True when `byte()` may be called without `refill()`. */
  hasByte(): boolean {
    return this.position >= this.#start && this.position < this.#end;
  }

  /** The next byte. Call `refill()` first unless `hasByte()`. */
  byte(): number {
    const value = this.#buffer[this.position - this.#start] ?? 0;
    this.position++;
    return value;
  }

  /** Moves the window to the position. @throws Error when the file ends there: it was truncated while being read */
  async refill(): Promise<void> {
    const wanted = Math.min(WINDOW_BYTES, this.#size - this.position);
    const { bytesRead } = await this.#file.read(this.#buffer, 0, wanted, this.position);
    if (bytesRead === 0) throw new Error(`the file ends at byte ${this.position}, expected ${this.#size} bytes`);
    this.#start = this.position;
    this.#end = this.position + bytesRead;
  }

  /** A copy of the next bytes; the caller has checked that they are inside the file. */
  async take(length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      if (!this.hasByte()) await this.refill();
      const from = this.position - this.#start;
      const copied = this.#buffer.copy(bytes, done, from, Math.min(this.#end - this.#start, from + length - done));
      done += copied;
      this.position += copied;
    }
    return bytes;
  }
}
