/**
 * Reads the `data` array of a KServe V2 tensor, flat or nested (Open Inference Protocol, "Tensor Data"), straight into
 * its bytes: no JavaScript object per element. Integers wrap to their width as in C. The first element of a wrong type
 * is remembered as an error and reading goes on, because a later syntax error takes precedence.
 */
import type { Datatype } from "../datatype.ts";
import { FastFloat } from "../numbers/fast-float.ts";
import { FastInteger } from "../numbers/fast-integer.ts";
import type { FloatKernel } from "../numbers/float-kernel.ts";
import { FloatKernelBackoff } from "../numbers/float-kernel-backoff.ts";
import { JsonLimitError } from "./error.ts";
import { COMMA, type JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./reader.ts";
import { type Arena, ArenaAllocator } from "./tensor-arena.ts";
import { skipContainer } from "./value.ts";

/** Datatypes that have a JSON form. */
export type JsonDatatype = Exclude<Datatype, "FP16" | "BF16">;

export interface JsonTensor {
  readonly data: Uint8Array;
  /** Elements in the text; more than `wanted` are counted but not kept. */
  readonly count: number;
  /** Elements of the outermost array; 1 for a scalar. */
  readonly outerCount: number;
  /** Type error of the first wrong element, e.g. "non-number as double" (words of Triton's JSON wrapper). */
  readonly error: string | undefined;
  /** Elements in front of that one. */
  readonly errorAt: number;
}

const SPACE = 0x20;
/** First letters of INT8 to INT64 and of UINT8 to UINT64. */
const LETTER_I = 0x49;
const LETTER_U = 0x55;
/** Elements between two pauses. */
const ELEMENTS_PER_SLICE = 16_384;
/** The same for objects, which cost more each. */
const OBJECTS_PER_SLICE = 1024;
/** The same for floats of the common form, which cost a tenth. */
const FLOATS_PER_SLICE = 65_536;
/** An element with its comma. */
const MIN_ELEMENT_CHARACTERS = 2;
/** Arrays around an element are fewer. Source: HTTP_MAX_JSON_NESTING_DEPTH of Triton. */
const MAX_DEPTH = 100;
/** First reservation of a tensor whose size is only claimed yet. */
const FIRST_BYTES = 8192;
const FIRST_STRING_BYTES = 1024;

const WRONG_TYPE: Readonly<Record<JsonDatatype, string>> = {
  BOOL: "non-boolean as boolean",
  UINT8: "non-unsigned-integer as unsigned-integer",
  UINT16: "non-unsigned-integer as unsigned-integer",
  UINT32: "non-unsigned-integer as unsigned-integer",
  UINT64: "non-unsigned-integer as unsigned-integer",
  INT8: "non-signed-integer as signed-integer",
  INT16: "non-signed-integer as signed-integer",
  INT32: "non-signed-integer as signed-integer",
  INT64: "non-signed-integer as signed-integer",
  FP32: "non-number as double",
  FP64: "non-number as double",
  BYTES: "non-string as string",
};

const ELEMENT_BYTES: Readonly<Record<JsonDatatype, number>> = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP32: 4,
  FP64: 8,
  BYTES: 0,
};

export class JsonTensorReader {
  readonly #reader: JsonReader;
  readonly #allocator = new ArenaAllocator();
  readonly #float = new FastFloat();
  readonly #integer = new FastInteger();
  readonly #kernel = new FloatKernelBackoff();
  #arena: Arena;
  #datatype: JsonDatatype = "INT32";
  #depth = 0;
  #isFirst = true;
  #wanted = 0;
  #count = 0;
  #outerCount = 0;
  /** In elements; for BYTES in bytes. */
  #capacity = 0;
  #numBytes = 0;
  #error: string | undefined;
  #errorAt = 0;

  constructor(reader: JsonReader) {
    this.#reader = reader;
    this.#arena = this.#allocator.reserve(0);
  }

  /** Reads the array at the reader's position. Keeps `wanted` elements; all strings of BYTES. */
  *read(datatype: JsonDatatype, wanted: number): Generator<undefined, JsonTensor> {
    this.#begin(datatype, wanted);
    this.#depth = 1;
    let numObjects = 0;
    this.#reader.open();
    for (;;) {
      const state = this.#slice();
      if (state === "done") return this.#finish();
      if (state === "pause") yield undefined;
      else {
        yield* skipContainer(this.#reader);
        if (++numObjects % OBJECTS_PER_SLICE === 0) yield undefined;
      }
    }
  }

  /** Reads the value at the reader's position as a tensor of one element. */
  readOne(datatype: JsonDatatype, byte: number): JsonTensor {
    this.#begin(datatype, 1);
    this.#outerCount = 1;
    this.#element(byte);
    return this.#finish();
  }

  /** The result for one value that cannot be an element. */
  refused(datatype: JsonDatatype): JsonTensor {
    return { data: new Uint8Array(0), count: 0, outerCount: 1, error: WRONG_TYPE[datatype], errorAt: 0 };
  }

  #begin(datatype: JsonDatatype, wanted: number): void {
    this.#datatype = datatype;
    this.#wanted = wanted;
    this.#isFirst = true;
    this.#count = 0;
    this.#outerCount = 0;
    this.#numBytes = 0;
    this.#error = undefined;
    this.#errorAt = 0;
    const size = ELEMENT_BYTES[datatype];
    const numBytes = size === 0 ? FIRST_STRING_BYTES : Math.min(wanted * size, FIRST_BYTES);
    this.#arena = this.#allocator.reserve(numBytes);
    this.#capacity = size === 0 ? numBytes : numBytes / size;
  }

  #finish(): JsonTensor {
    const size = ELEMENT_BYTES[this.#datatype];
    const numBytes = size === 0 ? this.#numBytes : Math.min(this.#count, this.#wanted) * size;
    const data = this.#allocator.commit(this.#arena, numBytes);
    return { data, count: this.#count, outerCount: this.#outerCount, error: this.#error, errorAt: this.#errorAt };
  }

  #slice(): "done" | "pause" | "object" {
    const reader = this.#reader;
    for (let budget = ELEMENTS_PER_SLICE; budget > 0; budget--) {
      if (!reader.nextElement(this.#isFirst)) {
        this.#isFirst = false;
        if (--this.#depth === 0) return "done";
        continue;
      }
      if (this.#depth === 1) this.#outerCount++;
      else if (this.#depth === MAX_DEPTH) this.#refuseDepth();
      const byte = reader.peek();
      this.#isFirst = byte === OPEN_ARRAY;
      if (byte === OPEN_ARRAY) {
        this.#depth++;
        reader.open();
      } else if (byte === OPEN_OBJECT) {
        this.#refuse();
        return "object";
      } else {
        this.#element(byte);
        budget -= this.#commonNumbers();
      }
    }
    return "pause";
  }

  /** Reads commas and numbers of the common form while there is room. @returns the number of numbers */
  #commonNumbers(): number {
    const room = Math.min(FLOATS_PER_SLICE, this.#capacity - this.#count);
    const letter = this.#datatype.charCodeAt(0);
    let count = 0;
    if (this.#datatype === "FP32") count = this.#commonFloats(room);
    else if (letter === LETTER_I || letter === LETTER_U) count = this.#commonIntegers(room, letter === LETTER_I);
    this.#count += count;
    if (this.#depth === 1) this.#outerCount += count;
    return count;
  }

  #commonFloats(room: number): number {
    const kernel = this.#kernel.next(room);
    return kernel === undefined
      ? this.#floatsOneByOne(Math.min(room, ELEMENTS_PER_SLICE))
      : this.#floatsByKernel(room, kernel);
  }

  #commonIntegers(room: number, isSigned: boolean): number {
    const reader = this.#reader;
    const { bytes } = reader;
    const integer = this.#integer;
    const first = this.#count;
    const limit = Math.min(room, ELEMENTS_PER_SLICE);
    let count = 0;
    let at = reader.pos;
    while (count < limit && bytes[at] === COMMA) {
      if (!integer.read(bytes, bytes[at + 1] === SPACE ? at + 2 : at + 1, isSigned)) break;
      const { value } = integer;
      this.#store(first + count++, value, value < 0 ? -1 : 0);
      at = integer.end;
    }
    reader.pos = at;
    return count;
  }

  #floatsByKernel(room: number, kernel: FloatKernel): number {
    const reader = this.#reader;
    const { f32, base } = this.#arena;
    const count = kernel.read(reader.bytes, reader.pos, f32, base / 4 + this.#count, room);
    reader.pos = kernel.end;
    this.#kernel.used(count, room);
    return count;
  }

  #floatsOneByOne(room: number): number {
    const reader = this.#reader;
    const { bytes } = reader;
    const float = this.#float;
    const { f32 } = this.#arena;
    const first = this.#arena.base / 4 + this.#count;
    let count = 0;
    let at = reader.pos;
    while (count < room && bytes[at] === COMMA) {
      if (!float.read(bytes, bytes[at + 1] === SPACE ? at + 2 : at + 1)) break;
      f32[first + count++] = float.value;
      at = float.end;
    }
    reader.pos = at;
    return count;
  }

  #element(byte: number): void {
    if (this.#datatype === "BYTES") this.#string(byte);
    else if (this.#datatype === "BOOL") this.#boolean(byte);
    else this.#number(byte);
  }

  #refuse(at: number = this.#count): void {
    if (this.#error !== undefined) return;
    this.#error = WRONG_TYPE[this.#datatype];
    this.#errorAt = at;
  }

  #refuseDepth(): never {
    const context = this.#datatype === "BYTES" ? "" : "Unable to parse 'data': ";
    throw new JsonLimitError(`${context}JSON nesting depth exceeds maximum allowed limit (${MAX_DEPTH})`);
  }

  #number(byte: number): void {
    const reader = this.#reader;
    if (byte !== 0x2d && (byte < 0x30 || byte > 0x39) && byte !== 0x4e && byte !== 0x49) {
      this.#refuse();
      reader.skipScalar(byte);
      return;
    }
    reader.readNumber();
    const at = this.#count++;
    if (at >= this.#capacity && !this.#grow(at)) return;
    const { base } = this.#arena;
    if (this.#datatype === "FP32") this.#arena.f32[base / 4 + at] = reader.number.toFloat();
    else if (this.#datatype === "FP64") this.#arena.f64[base / 8 + at] = reader.number.toNormalPrecision();
    else this.#anyInteger(at);
  }

  #anyInteger(at: number): void {
    const { number } = this.#reader;
    const isUnsigned = this.#datatype.charCodeAt(0) === LETTER_U;
    if (isUnsigned ? !number.isUint64() : !number.isInt64()) {
      this.#refuse(at);
      return;
    }
    if (number.isSafe) {
      const value = number.toInteger();
      this.#store(at, value, Math.floor(value / 0x100000000));
    } else {
      const value = number.toBigInt();
      this.#store(at, Number(BigInt.asUintN(32, value)), Number(BigInt.asIntN(32, value >> 32n)));
    }
  }

  /** A typed array keeps the low bits of `low` that fit its width. */
  #store(at: number, low: number, high: number): void {
    const arena = this.#arena;
    switch (ELEMENT_BYTES[this.#datatype]) {
      case 1:
        arena.u8[arena.base + at] = low;
        break;
      case 2:
        arena.u16[arena.base / 2 + at] = low;
        break;
      case 4:
        arena.i32[arena.base / 4 + at] = low;
        break;
      default:
        arena.u32[arena.base / 4 + 2 * at] = low;
        arena.i32[arena.base / 4 + 2 * at + 1] = high;
    }
  }

  #boolean(byte: number): void {
    this.#reader.skipScalar(byte);
    if (byte !== 0x74 && byte !== 0x66) {
      this.#refuse();
      return;
    }
    const at = this.#count++;
    if (at >= this.#capacity && !this.#grow(at)) return;
    this.#arena.u8[this.#arena.base + at] = byte === 0x74 ? 1 : 0;
  }

  #string(byte: number): void {
    const reader = this.#reader;
    if (byte !== 0x22) {
      this.#refuse();
      reader.skipScalar(byte);
      return;
    }
    this.#count++;
    const start = this.#numBytes;
    const room = start + 4 + reader.scanString();
    if (room > this.#capacity) this.#move(room, start);
    const { base, u8 } = this.#arena;
    const end = reader.copyString(u8, base + start + 4) - base;
    const length = end - start - 4;
    u8[base + start] = length;
    u8[base + start + 1] = length >>> 8;
    u8[base + start + 2] = length >>> 16;
    u8[base + start + 3] = length >>> 24;
    this.#numBytes = end;
  }

  /** Grows to `wanted`, bounded by the elements that the rest of the text can hold. @returns false if element `at` is not wanted */
  #grow(at: number): boolean {
    if (at >= this.#wanted) return false;
    const size = ELEMENT_BYTES[this.#datatype];
    const { bytes, pos } = this.#reader;
    const possible = at + 1 + Math.ceil((bytes.length - pos) / MIN_ELEMENT_CHARACTERS);
    this.#move(Math.min(possible, this.#wanted) * size, at * size);
    this.#capacity = Math.floor(this.#capacity / size);
    return true;
  }

  #move(numBytes: number, used: number): void {
    const from = this.#arena;
    const isString = this.#datatype === "BYTES";
    const to = this.#allocator.reserve(isString ? numBytes * 2 : numBytes);
    if (to !== from) to.u8.set(from.u8.subarray(from.base, from.base + used), to.base);
    this.#arena = to;
    this.#capacity = isString ? numBytes * 2 : numBytes;
  }
}

/** FP16 and BF16 tensors must be binary (Triton's binary data extension). */
export function hasJsonForm(datatype: Datatype): datatype is JsonDatatype {
  return datatype !== "FP16" && datatype !== "BF16";
}
