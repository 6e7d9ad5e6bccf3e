/**
 * As much of WebAssembly as the kernels of this folder need: expressions as lists of bytes, functions with named variables,
 * one module with one memory. Checks nothing; the engine does when the module is compiled.
 */

export type Code = readonly number[];
export type ValueType = "i32" | "i64" | "f64";

const TYPES: Readonly<Record<ValueType, number>> = { i32: 0x7f, i64: 0x7e, f64: 0x7c };
const NO_RESULT = 0x40;

type Binary = (left: Code, right: Code) => Code;
type Unary = (operand: Code) => Code;

const binary =
  (opcode: number): Binary =>
  (left, right) => [...left, ...right, opcode];
const unary =
  (opcode: number): Unary =>
  (operand) => [...operand, opcode];

/** Of 32 bits; comparisons give 0 or 1. "U": without sign. */
export const I32: Readonly<
  Record<"eq" | "ne" | "ltU" | "gtU" | "geU" | "add" | "sub" | "mul" | "divU" | "remU" | "and" | "or" | "shl", Binary>
> = {
  eq: binary(0x46),
  ne: binary(0x47),
  ltU: binary(0x49),
  gtU: binary(0x4b),
  geU: binary(0x4f),
  add: binary(0x6a),
  sub: binary(0x6b),
  mul: binary(0x6c),
  divU: binary(0x6e),
  remU: binary(0x70),
  and: binary(0x71),
  or: binary(0x72),
  shl: binary(0x74),
};

/** Of 64 bits. */
export const I64: Readonly<Record<"ltS" | "add" | "sub" | "mul" | "and" | "or" | "xor" | "shl" | "shrU", Binary>> = {
  ltS: binary(0x53),
  add: binary(0x7c),
  sub: binary(0x7d),
  mul: binary(0x7e),
  and: binary(0x83),
  or: binary(0x84),
  xor: binary(0x85),
  shl: binary(0x86),
  shrU: binary(0x88),
};

export const F64: Readonly<Record<"eq" | "lt" | "gt" | "ge" | "add" | "sub" | "mul" | "div" | "copySign", Binary>> = {
  eq: binary(0x61),
  lt: binary(0x63),
  gt: binary(0x64),
  ge: binary(0x66),
  add: binary(0xa0),
  sub: binary(0xa1),
  mul: binary(0xa2),
  div: binary(0xa3),
  copySign: binary(0xa6),
};

export const UNARY: Readonly<
  Record<
    | "isZero"
    | "isZero64"
    | "leadingZeros64"
    | "trailingZeros64"
    | "abs"
    | "truncate"
    | "low32"
    | "intOfFloat"
    | "extend"
    | "floatOfInt"
    | "floatOfLong"
    | "bits",
    Unary
  >
> = {
  isZero: unary(0x45),
  isZero64: unary(0x50),
  leadingZeros64: unary(0x79),
  trailingZeros64: unary(0x7a),
  abs: unary(0x99),
  truncate: unary(0x9d),
  low32: unary(0xa7),
  /** Traps from 2^31 on. */
  intOfFloat: unary(0xaa),
  extend: unary(0xad),
  floatOfInt: unary(0xb7),
  floatOfLong: unary(0xba),
  bits: unary(0xbd),
};

/** At any address; the kernels' data is not aligned. */
export const LOAD: Readonly<Record<"byte" | "long" | "double" | "float", Unary>> = {
  byte: (address) => [...address, 0x2d, 0, 0],
  long: (address) => [...address, 0x29, 0, 0],
  double: (address) => [...address, 0x2b, 0, 0],
  /** As a double. */
  float: (address) => [...address, 0x2a, 0, 0, 0xbb],
};

export const STORE: Readonly<Record<"byte" | "short" | "long" | "float", Binary>> = {
  byte: (address, value) => [...address, ...value, 0x3a, 0, 0],
  short: (address, value) => [...address, ...value, 0x3b, 0, 0],
  long: (address, value) => [...address, ...value, 0x37, 0, 0],
  /** Of a double, rounded to the nearest. */
  float: (address, value) => [...address, ...value, 0xb6, 0x38, 0, 0],
};

export function int(value: number): Code {
  return [0x41, ...signedLeb(BigInt(value))];
}

export function long(value: bigint): Code {
  return [0x42, ...signedLeb(BigInt.asIntN(64, value))];
}

export function double(value: number): Code {
  return [0x44, ...new Uint8Array(Float64Array.of(value).buffer)];
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

/** A module that exports the functions and its memory, `memory`, and the register, `register`. */
export function assemble(functions: readonly WasmFunction[], numPages: number): Uint8Array {
  const types = functions.map(({ types: all, numParameters }) => [
    0x60,
    ...vector(all.slice(0, numParameters).map((type) => [TYPES[type]])),
    ...vector([[TYPES.i32]]),
  ]);
  const exported = functions.map(({ name }, i) => [...text(name), 0, i]);
  exported.push([...text("memory"), 2, 0], [...text("register"), 3, 0]);
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, types),
    ...section(
      3,
      functions.map((_, i) => [i]),
    ),
    ...section(5, [[0, ...unsignedLeb(numPages)]]),
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
