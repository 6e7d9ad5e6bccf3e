/**
 * The binary form of messages between server and stub: little-endian fields, lengths in front. Knows no message.
 * The counterpart is `server/python/nereid_stub/codec.py`; the two change together.
 */
import type { Datatype } from "@nereid/wire";
import type { ParameterValue } from "../../core/infer-request.ts";
import { byteSize, type Tensor } from "../../core/tensor.ts";

/** Tensor data starts at a multiple of this in a message, so that numpy arrays over it are aligned. */
const DATA_ALIGNMENT = 8;
const BLOCK_BYTES = 2048;
/** Data up to this size is copied into the message's block: cheaper than one more buffer to write. */
const COPY_BYTES = 4096;
const LENGTH_BYTES = 4;
const TWO_32 = 2 ** 32;

/** By Triton's number. */
const DATATYPES: readonly (Datatype | undefined)[] = [
  undefined,
  "BOOL",
  "UINT8",
  "UINT16",
  "UINT32",
  "UINT64",
  "INT8",
  "INT16",
  "INT32",
  "INT64",
  "FP16",
  "FP32",
  "FP64",
  "BYTES",
  "BF16",
];
const PARAMETER_BOOL = 0;
const PARAMETER_INT = 1;
const PARAMETER_STRING = 2;
const PARAMETER_DOUBLE = 3;
/** Location of a tensor's data: after its header, in shared memory, in the stub's memory, or in a client's region. */
const INLINE = 0;
const SHARED = 1;
const LEASED = 2;
const CLIENT = 3;

/** Copies large data into shared memory, so that a message only carries its offset. */
export interface DataPlacer {
  place(data: Uint8Array): { readonly offset: number; readonly capacity: number } | undefined;
  /** Location that the stub can read without a copy; undefined when there is none. */
  locate?(data: Uint8Array): ClientRegion | undefined;
}

/** A part of an object that the server has open for a client. */
export interface ClientRegion {
  readonly descriptor: number;
  /** They tell whether the descriptor is still the same object's. */
  readonly device: number;
  readonly inode: number;
  readonly offset: number;
}

/** Gets the data that a message only names. Both throw RangeError when it cannot be had. */
export interface DataSource {
  /** Out of the memory of the stub. */
  copy(lease: number, address: bigint, byteLength: number): Uint8Array;
  /** Data in shared memory; `release`: the last reader is done. */
  view(offset: number, capacity: number, byteLength: number): { data: Uint8Array; release: () => void };
}

/** Builds one message as a list of buffers; big tensor data is referred to and not copied. */
export class FrameWriter {
  readonly #chunks: Uint8Array[] = [];
  readonly #first: Buffer;
  readonly #placer: DataPlacer | undefined;
  #block: Buffer;
  #start = 0;
  #at: number = LENGTH_BYTES;
  #flushed = 0;

  constructor(kind: number, placer?: DataPlacer) {
    this.#placer = placer;
    this.#first = Buffer.allocUnsafe(BLOCK_BYTES);
    this.#block = this.#first;
    this.u8(kind);
  }

  u8(value: number): void {
    this.#reserve(1);
    this.#at = this.#block.writeUInt8(value, this.#at);
  }

  u32(value: number): void {
    this.#reserve(4);
    this.#at = this.#block.writeUInt32LE(value, this.#at);
  }

  f64(value: number): void {
    this.#reserve(8);
    this.#at = this.#block.writeDoubleLE(value, this.#at);
  }

  u64(value: bigint): void {
    this.#reserve(8);
    this.#at = this.#block.writeBigUInt64LE(value, this.#at);
  }

  i64(value: number | bigint): void {
    this.#reserve(8);
    if (typeof value === "bigint") {
      this.#at = this.#block.writeBigInt64LE(value, this.#at);
    } else {
      this.#block.writeUInt32LE(value >>> 0, this.#at);
      this.#at = this.#block.writeInt32LE(Math.floor(value / TWO_32), this.#at + 4);
    }
  }

  string(value: string): void {
    const size = Buffer.byteLength(value);
    this.u32(size);
    this.#reserve(size);
    this.#at += this.#block.write(value, this.#at, "utf8");
  }

  strings(values: readonly string[]): void {
    this.u32(values.length);
    for (const value of values) this.string(value);
  }

  tensor(tensor: Tensor): void {
    this.string(tensor.name);
    this.u8(DATATYPES.indexOf(tensor.datatype));
    this.u32(tensor.shape.length);
    for (const dim of tensor.shape) this.i64(dim);
    const client = this.#placer?.locate?.(tensor.data);
    if (client !== undefined) {
      this.u8(CLIENT);
      for (const number of [client.descriptor, client.device, client.inode, client.offset]) this.i64(number);
      this.i64(tensor.data.length);
      return;
    }
    const place = this.#placer?.place(tensor.data);
    if (place !== undefined) {
      this.u8(SHARED);
      this.i64(place.offset);
      this.i64(place.capacity);
      this.i64(tensor.data.length);
      return;
    }
    this.u8(INLINE);
    this.u32(tensor.data.length);
    const padding = -this.#size() & (DATA_ALIGNMENT - 1);
    this.#reserve(padding);
    this.#block.fill(0, this.#at, this.#at + padding);
    this.#at += padding;
    this.#data(tensor.data);
  }

  parameters(parameters: ReadonlyMap<string, ParameterValue>): void {
    this.u32(parameters.size);
    for (const [name, value] of parameters) {
      this.string(name);
      this.#parameter(value);
    }
  }

  /** The buffers to write, length of the message first. The writer is spent. @throws RangeError over 4 GiB */
  finish(): readonly Uint8Array[] {
    this.#flush();
    this.#first.writeUInt32LE(this.#flushed - LENGTH_BYTES, 0);
    return this.#chunks;
  }

  #parameter(value: ParameterValue): void {
    if (typeof value === "boolean") {
      this.u8(PARAMETER_BOOL);
      this.u8(value ? 1 : 0);
    } else if (typeof value === "string") {
      this.u8(PARAMETER_STRING);
      this.string(value);
    } else if (typeof value === "object") {
      this.u8(PARAMETER_DOUBLE);
      this.f64(value.double);
    } else {
      this.u8(PARAMETER_INT);
      this.i64(value);
    }
  }

  /** Bytes of the message so far, without its length. */
  #size(): number {
    return this.#flushed + this.#at - this.#start - LENGTH_BYTES;
  }

  #data(data: Uint8Array): void {
    if (data.length > COPY_BYTES) {
      this.#flush();
      this.#chunks.push(data);
      this.#flushed += data.length;
      return;
    }
    this.#reserve(data.length);
    this.#block.set(data, this.#at);
    this.#at += data.length;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#block.length) return;
    this.#flush();
    this.#block = Buffer.allocUnsafe(Math.max(BLOCK_BYTES, bytes));
    this.#start = 0;
    this.#at = 0;
  }

  #flush(): void {
    if (this.#at > this.#start) this.#chunks.push(this.#block.subarray(this.#start, this.#at));
    this.#flushed += this.#at - this.#start;
    this.#start = this.#at;
  }
}

/** Takes the fields of one message out in order; tensor data stays a view. @throws RangeError when fields are missing */
export class FrameReader {
  readonly #body: Buffer;
  readonly #source: DataSource | undefined;
  #at = 0;
  #releases: (() => void)[] = [];

  constructor(body: Buffer, source?: DataSource) {
    this.#body = body;
    this.#source = source;
  }

  u8(): number {
    const value = this.#body.readUInt8(this.#at);
    this.#at += 1;
    return value;
  }

  bool(): boolean {
    return this.u8() === 1;
  }

  u32(): number {
    const value = this.#body.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  f64(): number {
    const value = this.#body.readDoubleLE(this.#at);
    this.#at += 8;
    return value;
  }

  u64(): bigint {
    const value = this.#body.readBigUInt64LE(this.#at);
    this.#at += 8;
    return value;
  }

  /** As a number when that is exact. */
  i64(): number | bigint {
    const value = this.#body.readInt32LE(this.#at + 4) * TWO_32 + this.#body.readUInt32LE(this.#at);
    const exact = Number.isSafeInteger(value) ? value : this.#body.readBigInt64LE(this.#at);
    this.#at += 8;
    return exact;
  }

  string(): string {
    const bytes = this.#take(this.u32());
    return bytes.toString("utf8");
  }

  /** Bytes with their length in front. */
  data(): Buffer {
    return this.#take(this.u32());
  }

  strings(): string[] {
    return this.list(() => this.string());
  }

  list<T>(read: () => T): T[] {
    const items: T[] = [];
    for (let left = this.u32(); left > 0; left -= 1) items.push(read());
    return items;
  }

  tensor(): Tensor {
    const name = this.string();
    const datatype = DATATYPES[this.u8()];
    if (datatype === undefined) throw new RangeError(`tensor '${name}' has an unknown datatype number`);
    const shape = this.list(() => Number(this.i64()));
    const data = this.#tensorData(`tensor '${name}' of shape [${shape.join(",")}]`, byteSize(datatype, shape));
    return { name, datatype, shape, data };
  }

  /** Gives the memory back in which tensors read since the last call lie; undefined when they lie in the message. */
  takeRelease(): (() => void) | undefined {
    const releases = this.#releases;
    if (releases.length === 0) return undefined;
    this.#releases = [];
    return () => {
      for (const release of releases) release();
    };
  }

  #tensorData(what: string, expected: number | undefined): Uint8Array {
    const place = this.u8();
    if (place !== INLINE) return this.#namedData(place, what, expected);
    const size = this.u32();
    this.#at += -this.#at & (DATA_ALIGNMENT - 1);
    expectSize(what, expected, size);
    return this.#take(size);
  }

  #namedData(place: number, what: string, expected: number | undefined): Uint8Array {
    const first = this.u64();
    const second = this.u64();
    const size = Number(this.u64());
    expectSize(what, expected, size);
    if (this.#source === undefined) throw new RangeError(`${what} is in memory that the server cannot see`);
    if (place === LEASED) return this.#source.copy(Number(first), second, size);
    if (place !== SHARED) throw new RangeError(`${what} is in an unknown place`);
    const { data, release } = this.#source.view(Number(first), Number(second), size);
    this.#releases.push(release);
    return data;
  }

  parameters(): ReadonlyMap<string, ParameterValue> {
    return new Map(this.list((): [string, ParameterValue] => [this.string(), this.#parameter()]));
  }

  #parameter(): ParameterValue {
    const tag = this.u8();
    if (tag === PARAMETER_BOOL) return this.bool();
    if (tag === PARAMETER_INT) return this.i64();
    if (tag === PARAMETER_STRING) return this.string();
    return { double: this.f64() };
  }

  #take(size: number): Buffer {
    const end = this.#at + size;
    if (end > this.#body.length) throw new RangeError(`message of ${this.#body.length} bytes ends inside a field`);
    const bytes = this.#body.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}

/** `expected` undefined: the datatype leaves it open. */
function expectSize(what: string, expected: number | undefined, size: number): void {
  if (expected !== undefined && expected !== size) throw new RangeError(`${what} needs ${expected} bytes, got ${size}`);
}
