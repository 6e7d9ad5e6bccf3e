/**
 * Flat frames of 32-bit words: how an engine host and its server talk. A frame is its length in words, its kind, and
 * fields one after the other, each known to both sides by the kind. Knows no kinds itself.
 */

/** Length of the largest frame: the biggest prompt table and vocabulary bias fit many times. */
export const MAX_FRAME_WORDS: number = 256 * 1024 * 1024;
const HEADER_WORDS = 2;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes one frame after the other into memory that it keeps. */
export class FrameWriter {
  #words: Int32Array = new Int32Array(1024);
  #floats: Float32Array = new Float32Array(this.#words.buffer);
  #length = 0;
  readonly #double = new Float64Array(1);
  readonly #doubleWords = new Int32Array(this.#double.buffer);

  begin(kind: number): void {
    this.#length = HEADER_WORDS;
    this.#words[1] = kind;
  }

  int(value: number): void {
    this.#reserve(1);
    this.#words[this.#length++] = value;
  }

  double(value: number): void {
    this.#reserve(2);
    this.#double[0] = value;
    this.#words[this.#length++] = this.#doubleWords[0] ?? 0;
    this.#words[this.#length++] = this.#doubleWords[1] ?? 0;
  }

  ints(values: Int32Array): void {
    this.int(values.length);
    this.#reserve(values.length);
    this.#words.set(values, this.#length);
    this.#length += values.length;
  }

  floats(values: Float32Array): void {
    this.int(values.length);
    this.#reserve(values.length);
    this.#floats.set(values, this.#length);
    this.#length += values.length;
  }

  text(value: string): void {
    const bytes = encoder.encode(value);
    const words = Math.ceil(bytes.length / 4);
    this.int(bytes.length);
    this.#reserve(words);
    new Uint8Array(this.#words.buffer, this.#length * 4, bytes.length).set(bytes);
    this.#length += words;
  }

  /** The finished frame, a copy that the caller may keep. */
  end(): Uint8Array {
    this.#words[0] = this.#length;
    return new Uint8Array(this.#words.buffer.slice(0, this.#length * 4));
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#words.length) return;
    if (needed > MAX_FRAME_WORDS) throw new RangeError(`frame of ${needed} words, expected at most ${MAX_FRAME_WORDS}`);
    const words = new Int32Array(Math.min(MAX_FRAME_WORDS, Math.max(needed, this.#words.length * 2)));
    words.set(this.#words);
    this.#words = words;
    this.#floats = new Float32Array(words.buffer);
  }
}

/** Reads the fields of one frame in the order they were written. Reading past the end throws. */
export class FrameReader {
  readonly kind: number;
  readonly #words: Int32Array;
  #at = HEADER_WORDS;

  constructor(words: Int32Array) {
    this.#words = words;
    this.kind = words[1] ?? 0;
  }

  int(): number {
    return this.#take(1)[0] ?? 0;
  }

  double(): number {
    return new Float64Array(this.#take(2).slice().buffer)[0] ?? 0;
  }

  /** A view of the frame: valid as long as the frame is. */
  ints(): Int32Array {
    return this.#take(this.int());
  }

  floats(): Float32Array {
    const words = this.#take(this.int());
    return new Float32Array(words.buffer, words.byteOffset, words.length);
  }

  text(): string {
    const length = this.int();
    const words = this.#take(Math.ceil(length / 4));
    return decoder.decode(new Uint8Array(words.buffer, words.byteOffset, length));
  }

  #take(count: number): Int32Array {
    const end = this.#at + count;
    if (count < 0 || end > this.#words.length) throw new RangeError(`frame of kind ${this.kind} is too short`);
    const words = this.#words.subarray(this.#at, end);
    this.#at = end;
    return words;
  }
}

/** Cuts a stream of bytes into frames. */
export class FrameSplitter {
  readonly #onFrame: (frame: FrameReader) => void;
  #parts: Uint8Array[] = [];
  #numBytes = 0;
  /** Bytes of the frame being gathered; 0 = its length is not known yet. */
  #needed = 0;

  constructor(onFrame: (frame: FrameReader) => void) {
    this.#onFrame = onFrame;
  }

  /** @throws RangeError on a length that no writer produces: the stream is not one of frames */
  push(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#numBytes += bytes.length;
    while (this.#numBytes >= Math.max(4, this.#needed)) {
      const joined = this.#join();
      this.#needed = new DataView(joined.buffer, joined.byteOffset).getInt32(0, true) * 4;
      if (this.#needed < HEADER_WORDS * 4 || this.#needed > MAX_FRAME_WORDS * 4) {
        throw new RangeError(`frame of ${this.#needed} bytes`);
      }
      if (this.#numBytes < this.#needed) return;
      const frame = new Uint8Array(this.#needed); // aligned, and independent of the socket's buffer
      frame.set(joined.subarray(0, this.#needed));
      this.#parts = joined.length > this.#needed ? [joined.subarray(this.#needed)] : [];
      this.#numBytes -= this.#needed;
      this.#needed = 0;
      this.#onFrame(new FrameReader(new Int32Array(frame.buffer, 0, frame.length / 4)));
    }
  }

  #join(): Uint8Array {
    const first = this.#parts[0];
    if (this.#parts.length === 1 && first !== undefined) return first;
    const joined = new Uint8Array(this.#numBytes);
    let at = 0;
    for (const part of this.#parts) {
      joined.set(part, at);
      at += part.length;
    }
    this.#parts = [joined];
    return joined;
  }
}
