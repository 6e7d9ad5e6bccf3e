/**
 * As much of WebAssembly as the kernels of this folder need: expressions as lists of bytes, functions with named variables,
 * one module with one memory, which comes from outside. Checks nothing; the engine does when the module is compiled.
 */

export type Code = readonly number[];
/** v128: sixteen bytes, or so many lanes of a wider type. */
export type ValueType = "i32" | "i64" | "f64" | "v128";

const TYPES: Readonly<Record<ValueType, number>> = { i32: 0x7f, i64: 0x7e, f64: 0x7c, v128: 0x7b };
const SIMD = 0xfd;
const NO_RESULT = 0x40;

type Binary = (left: Code, right: Code) => Code;
type Unary = (operand: Code) => Code;

const binary =
  (opcode: number): Binary =>
  (left, right) => [...left, ...right, opcode];
const unary =
  (opcode: number): Unary =>
  (operand) => [...operand, opcode];

const lanes =
  (opcode: number): Binary =>
  (left, right) => [...left, ...right, SIMD, ...unsignedLeb(opcode)];
const ofLanes =
  (opcode: number, ...lane: number[]): Unary =>
  (operand) => [...operand, SIMD, ...unsignedLeb(opcode), ...lane];

/** Of 32 bits; comparisons give 0 or 1. "U": without sign. */
export const I32: Readonly<
  Record<"eq" | "ne" | "leU" | "geU" | "add" | "sub" | "mul" | "divU" | "and" | "or" | "xor" | "shl" | "shrU", Binary>
> = {
  eq: binary(0x46),
  ne: binary(0x47),
  leU: binary(0x4d),
  geU: binary(0x4f),
  add: binary(0x6a),
  sub: binary(0x6b),
  mul: binary(0x6c),
  divU: binary(0x6e),
  and: binary(0x71),
  or: binary(0x72),
  xor: binary(0x73),
  shl: binary(0x74),
  shrU: binary(0x76),
};

/** Of 64 bits. */
export const I64: Readonly<
  Record<"eq" | "ltU" | "leU" | "add" | "sub" | "mul" | "and" | "or" | "xor" | "shl" | "shrU", Binary>
> = {
  eq: binary(0x51),
  ltU: binary(0x54),
  leU: binary(0x58),
  add: binary(0x7c),
  sub: binary(0x7d),
  mul: binary(0x7e),
  and: binary(0x83),
  or: binary(0x84),
  xor: binary(0x85),
  shl: binary(0x86),
  shrU: binary(0x88),
};

export const F64: Readonly<Record<"add", Binary>> = {
  add: binary(0xa0),
};

/** Of the lanes of a vector; the distance of shifts is an i32. `dot`: of pairs of 16 bits, a sum of 32 bits for each. */
export const LANES: Readonly<
  Record<
    | "equal8"
    | "greater8"
    | "add8"
    | "sub8"
    | "narrow32"
    | "shl16"
    | "shrU16"
    | "sub16"
    | "mul16"
    | "shl32"
    | "shrU32"
    | "sub32"
    | "dot"
    | "and"
    | "or"
    | "mulDoubles",
    Binary
  >
> = {
  equal8: lanes(0x23),
  greater8: lanes(0x27),
  add8: lanes(0x6e),
  sub8: lanes(0x71),
  /** 32 bits to 16, both operands one after the other. */
  narrow32: lanes(0x85),
  shl16: lanes(0x8b),
  shrU16: lanes(0x8d),
  sub16: lanes(0x91),
  mul16: lanes(0x95),
  shl32: lanes(0xab),
  shrU32: lanes(0xad),
  sub32: lanes(0xb1),
  dot: lanes(0xba),
  and: lanes(0x4e),
  or: lanes(0x50),
  mulDoubles: lanes(0xf2),
};

export const VECTOR: Readonly<
  Record<"splat64" | "low64" | "bitmask8" | "doubles" | "firstDouble" | "secondDouble", Unary> &
    Record<"high64", Binary>
> = {
  splat64: ofLanes(0x12),
  /** The vector with another upper half. */
  high64: (left, right) => [...left, ...right, SIMD, 0x1e, 1],
  low64: ofLanes(0x1d, 0),
  /** The highest bit of each byte. */
  bitmask8: ofLanes(0x64),
  /** Of the first two numbers of 32 bits. */
  doubles: ofLanes(0xfe),
  firstDouble: ofLanes(0x21, 0),
  secondDouble: ofLanes(0x21, 1),
};

export const UNARY: Readonly<
  Record<
    | "isZero"
    | "isZero64"
    | "leadingZeros"
    | "trailingZeros"
    | "low32"
    | "extend"
    | "floatOfInt"
    | "bits"
    | "bitsOfSingle",
    Unary
  >
> = {
  isZero: unary(0x45),
  isZero64: unary(0x50),
  leadingZeros: unary(0x67),
  trailingZeros: unary(0x68),
  low32: unary(0xa7),
  extend: unary(0xad),
  /** With its sign. */
  floatOfInt: unary(0xb7),
  bits: unary(0xbd),
  /** Of a double, rounded to the nearest single. */
  bitsOfSingle: (operand) => [...operand, 0xb6, 0xbc],
};

type Load = (address: Code, offset?: number) => Code;
type Store = (address: Code, value: Code, offset?: number) => Code;

const load =
  (...opcode: number[]): Load =>
  (address, offset = 0) => [...address, ...opcode, 0, ...unsignedLeb(offset)];
const store =
  (...opcode: number[]): Store =>
  (address, value, offset = 0) => [...address, ...value, ...opcode, 0, ...unsignedLeb(offset)];

/** At any address; the kernels' data is not aligned. */
export const LOAD: Readonly<Record<"byte" | "int" | "long" | "vector", Load>> = {
  byte: load(0x2d),
  int: load(0x28),
  long: load(0x29),
  vector: load(SIMD, 0),
};

export const STORE: Readonly<Record<"int" | "long" | "vector", Store>> = {
  int: store(0x36),
  long: store(0x37),
  vector: store(SIMD, 0x0b),
};

export function int(value: number): Code {
  return [0x41, ...signedLeb(BigInt(value))];
}

export function long(value: bigint): Code {
  return [0x42, ...signedLeb(BigInt.asIntN(64, value))];
}

/** `isTrue ? yes : no`, both computed. */
export function choose(isTrue: Code, yes: Code, no: Code): Code {
  return [...yes, ...no, ...isTrue, 0x1b];
}

export function when(condition: Code, ...then: readonly Code[]): Code {
  return [...condition, 0x04, NO_RESULT, ...then.flat(), 0x0b];
}

export function whenElse(condition: Code, then: readonly Code[], otherwise: readonly Code[]): Code {
  return [...condition, 0x04, NO_RESULT, ...then.flat(), 0x05, ...otherwise.flat(), 0x0b];
}

/** Left by `leave`. */
export function block(...body: readonly Code[]): Code {
  return [0x02, NO_RESULT, ...body.flat(), 0x0b];
}

/** Begins again at `leave` or `leaveWhen` that count it. */
export function loop(...body: readonly Code[]): Code {
  return [0x03, NO_RESULT, ...body.flat(), 0x0b];
}

/** `depth`: how many blocks, loops and conditions lie between. */
export function leave(depth: number): Code {
  return [0x0c, depth];
}

export function leaveWhen(depth: number, condition: Code): Code {
  return [...condition, 0x0d, depth];
}

/** The one value that functions leave behind beside their result. */
export const REGISTER = { get: [0x23, 0] as Code, set: (value: Code): Code => [...value, 0x24, 0] };

/** The variables of a function by name; its parameters come first. */
export class Variables<Name extends string> {
  readonly #index: ReadonlyMap<string, number>;
  readonly types: readonly ValueType[];

  constructor(types: Readonly<Record<Name, ValueType>>) {
    this.#index = new Map(Object.keys(types).map((name, i) => [name, i]));
    this.types = Object.values(types);
  }

  get(name: Name): Code {
    return [0x20, this.#index.get(name) ?? 0];
  }

  set(name: Name, value: Code): Code {
    return [...value, 0x21, this.#index.get(name) ?? 0];
  }

  /** Sets it and is its value. */
  tee(name: Name, value: Code): Code {
    return [...value, 0x22, this.#index.get(name) ?? 0];
  }

  add(name: Name, value: Code): Code {
    return this.set(name, I32.add(this.get(name), value));
  }
}

export interface WasmFunction {
  readonly name: string;
  readonly types: readonly ValueType[];
  /** The first of its variables. */
  readonly numParameters: number;
  /** Ends with a value of type i32 on the stack. */
  readonly body: readonly Code[];
}

export interface MemoryLimits {
  readonly numPages: number;
  /** With other threads. */
  readonly isShared: boolean;
}

/** A module that imports its memory, `memory` of `host`, and exports the functions and the register, `register`. */
export function assemble(functions: readonly WasmFunction[], { numPages, isShared }: MemoryLimits): Uint8Array {
  const types = functions.map(({ types: all, numParameters }) => [
    0x60,
    ...vector(all.slice(0, numParameters).map((type) => [TYPES[type]])),
    ...vector([[TYPES.i32]]),
  ]);
  const exported = functions.map(({ name }, i) => [...text(name), 0, i]);
  exported.push([...text("register"), 3, 0]);
  const pages = unsignedLeb(numPages);
  const limits = isShared ? [3, ...pages, ...pages] : [0, ...pages];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, types),
    ...section(2, [[...text("host"), ...text("memory"), 2, ...limits]]),
    ...section(
      3,
      functions.map((_, i) => [i]),
    ),
    ...section(6, [[TYPES.i32, 1, ...int(0), 0x0b]]),
    ...section(7, exported),
    ...section(10, functions.map(functionBody)),
  ]);
}

function functionBody({ types, numParameters, body }: WasmFunction): Code {
  const locals = vector(types.slice(numParameters).map((type) => [1, TYPES[type]]));
  const bytes = [...locals, ...body.flat(), 0x0b];
  return [...unsignedLeb(bytes.length), ...bytes];
}

function section(id: number, entries: readonly Code[]): Code {
  const content = vector(entries);
  return [id, ...unsignedLeb(content.length), ...content];
}

function vector(entries: readonly Code[]): Code {
  return [...unsignedLeb(entries.length), ...entries.flat()];
}

function text(name: string): Code {
  return [...unsignedLeb(name.length), ...Array.from(name, (letter) => letter.charCodeAt(0))];
}

function unsignedLeb(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest >>>= 7) bytes.push((rest & 127) | 128);
  bytes.push(rest);
  return bytes;
}

function signedLeb(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const byte = Number(rest & 127n);
    rest >>= 7n;
    const isLast = (rest === 0n && (byte & 64) === 0) || (rest === -1n && (byte & 64) !== 0);
    bytes.push(isLast ? byte : byte | 128);
    if (isLast) return bytes;
  }
}
