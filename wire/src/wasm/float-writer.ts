/**
 * Writes single-precision floats as JSON, each as the double that it is with the fewest digits that name it, as WebAssembly.
 * The way is that of float-digits.ts, which says why it is exact; digits are made eight at a time. Stops in front of numbers
 * that have an exponent or are none.
 */
import {
  block,
  type Code,
  double,
  F64,
  I32,
  I64,
  int,
  LOAD,
  leave,
  leaveWhen,
  long,
  loop,
  REGISTER,
  STORE,
  UNARY,
  Variables,
  type WasmFunction,
  when,
  whenElse,
} from "./assembler.ts";
import type { PowerTables } from "./float-reader.ts";

const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const POINT_ZERO: number = POINT + ZERO * 256;
const ZERO_POINT: number = ZERO + POINT * 256;
const SMALLEST = 1e-4;
const LARGEST: number = 2 ** 24;
const LARGEST_WHOLE = 1e8;
const NUM_DIGITS = 17;
const HIGH_DIGITS = 9;
const LOW_RANGE = 1e8;
const ZEROS = 0x3030303030303030n;

const v = new Variables({
  src: "i32",
  count: "i32",
  dst: "i32",
  done: "i32",
  before: "i32",
  exponent: "i32",
  high: "i32",
  low: "i32",
  best: "i32",
  step: "i32",
  quotient: "i32",
  over: "i32",
  up: "i32",
  candidate: "i32",
  hasFraction: "i32",
  isNear: "i32",
  top: "i32",
  ninth: "i32",
  upper: "i64",
  eight: "i64",
  quotients: "i64",
  value: "f64",
  size: "f64",
  scaled: "f64",
  fraction: "f64",
  rest: "f64",
  half: "f64",
  distance: "f64",
});

/**
 * `writeFloats(src, count, dst)`: a comma and a number for each float. Gives how many it wrote; the register then holds where
 * the text ends. Each number needs room for 32 bytes.
 */
export function floatWriter(tables: PowerTables): WasmFunction {
  const isWhole = I32.and(
    F64.eq(v.get("size"), UNARY.truncate(v.get("size"))),
    F64.lt(v.get("size"), double(LARGEST_WHOLE)),
  );
  const isUsual = I32.and(F64.ge(v.get("size"), double(SMALLEST)), F64.lt(v.get("size"), double(LARGEST)));
  return {
    name: "writeFloats",
    types: v.types,
    numParameters: 3,
    body: [
      block(
        loop(
          leaveWhen(1, I32.geU(v.get("done"), v.get("count"))),
          v.set("before", v.get("dst")),
          v.set("size", UNARY.abs(v.tee("value", LOAD.float(v.get("src"))))),
          STORE.byte(v.get("dst"), int(COMMA)),
          v.add("dst", int(1)),
          STORE.byte(v.get("dst"), int(MINUS)),
          v.add("dst", UNARY.low32(I64.shrU(UNARY.bits(v.get("value")), long(63n)))),
          whenElse(isWhole, writeWhole(), [
            when(UNARY.isZero(isUsual), v.set("dst", v.get("before")), leave(3)),
            ...scale(tables),
            ...shorten(),
            ...writeDigits(),
          ]),
          v.add("src", int(4)),
          v.add("done", int(1)),
          leave(0),
        ),
      ),
      REGISTER.set(v.get("dst")),
      v.get("done"),
    ],
  };
}

/** floor(log10(size)) from 1 on. */
function countDigits(): Code {
  const above = [10, 100, 1000, 1e4, 1e5, 1e6, 1e7].map((limit) => F64.ge(v.get("size"), double(limit)));
  return above.reduce((sum, one) => I32.add(sum, one));
}

/** Eight digits without the zeros in front, then ".0". */
function writeWhole(): Code[] {
  const shift = I64.shl(UNARY.extend(I32.sub(int(7), v.get("exponent"))), long(3n));
  return [
    v.set("exponent", countDigits()),
    ...eightDigits(UNARY.intOfFloat(v.get("size"))),
    STORE.long(v.get("dst"), I64.shrU(v.get("eight"), shift)),
    v.add("dst", I32.add(v.get("exponent"), int(1))),
    STORE.short(v.get("dst"), int(POINT_ZERO)),
    v.add("dst", int(2)),
  ];
}

/** Splits the number into nine digits, eight digits and the exact rest. */
function scale({ doubles }: PowerTables): Code[] {
  const power = LOAD.double(I32.add(int(doubles), I32.shl(I32.sub(int(8), v.get("exponent")), int(3))));
  const below = [0.1, 0.01, 0.001].map((limit) => F64.lt(v.get("size"), double(limit)));
  const negative = I32.sub(
    int(-1),
    below.reduce((sum, one) => I32.add(sum, one)),
  );
  const unit = I64.sub(I64.and(UNARY.bits(v.get("size")), long(0x7ff0000000000000n)), long(53n << 52n));
  return [
    whenElse(F64.ge(v.get("size"), double(1)), [v.set("exponent", countDigits())], [v.set("exponent", negative)]),
    v.set("scaled", F64.mul(v.get("size"), power)),
    when(
      F64.ge(v.get("scaled"), double(1e9)),
      v.add("exponent", int(1)),
      v.set("scaled", F64.mul(v.get("size"), power)),
    ),
    v.set("high", UNARY.intOfFloat(v.get("scaled"))),
    v.set("rest", F64.mul(F64.sub(v.get("scaled"), UNARY.floatOfInt(v.get("high"))), double(LOW_RANGE))),
    v.set("low", UNARY.intOfFloat(v.get("rest"))),
    v.set("fraction", F64.sub(v.get("rest"), UNARY.floatOfInt(v.get("low")))),
    v.set("half", F64.mul(F64.mul([...unit, 0xbf], power), double(LOW_RANGE))),
  ];
}

/**
 * Drops digits while the value stays within half a unit in the last place. One or two digits go without a branch: nobody can
 * foretell which. More seldom do.
 */
function shorten(): Code[] {
  const isTie = I32.and(F64.eq(v.get("fraction"), double(0.5)), I32.and(v.get("low"), int(1)));
  const step = v.get("step");
  return [
    v.set("best", I32.add(v.get("low"), I32.or(F64.gt(v.get("fraction"), double(0.5)), isTie))),
    v.set("hasFraction", F64.gt(v.get("fraction"), double(0))),
    ...round(int(10)),
    v.set("isNear", F64.lt(v.get("distance"), v.get("half"))),
    ...takeIfNear(),
    ...round(int(100)),
    v.set("isNear", I32.and(v.get("isNear"), F64.lt(v.get("distance"), v.get("half")))),
    ...takeIfNear(),
    when(
      v.get("isNear"),
      v.set("step", int(1000)),
      block(
        loop(
          ...round(step),
          leaveWhen(1, F64.ge(v.get("distance"), v.get("half"))),
          v.set("best", v.get("candidate")),
          v.set("step", I32.mul(step, int(10))),
          leaveWhen(0, I32.ltU(step, int(LOW_RANGE + 1))),
        ),
      ),
    ),
    when(
      I32.geU(v.get("best"), int(LOW_RANGE)),
      v.set("best", I32.sub(v.get("best"), int(LOW_RANGE))),
      v.add("high", int(1)),
    ),
    when(I32.geU(v.get("high"), int(1e9)), v.set("high", int(1e8)), v.set("best", int(0)), v.add("exponent", int(1))),
  ];
}

/** By multiplication: a choice would be a branch. */
function takeIfNear(): Code[] {
  const change = I32.sub(v.get("candidate"), v.get("best"));
  return [v.add("best", I32.mul(change, v.get("isNear")))];
}

/** The nearest multiple of `step`, of two the even one, and how far it is. */
function round(step: Code): Code[] {
  const over = v.get("over");
  const doubled = I32.add(over, over);
  const isAbove = I32.and(I32.eq(doubled, step), I32.or(v.get("hasFraction"), I32.and(v.get("quotient"), int(1))));
  return [
    v.set("quotient", I32.divU(v.get("low"), step)),
    v.set("over", I32.sub(v.get("low"), I32.mul(v.get("quotient"), step))),
    v.set("up", I32.mul(I32.or(I32.gtU(doubled, step), isAbove), step)),
    v.set("candidate", I32.add(I32.sub(v.get("low"), over), v.get("up"))),
    v.set("distance", UNARY.abs(F64.add(UNARY.floatOfInt(I32.sub(over, v.get("up"))), v.get("fraction")))),
  ];
}

/** Nine digits and eight, around the point or behind it; zeros at the end go. */
function writeDigits(): Code[] {
  return [
    v.set("top", I32.divU(v.get("high"), int(10))),
    ...eightDigits(v.get("top")),
    v.set("upper", v.get("eight")),
    v.set("ninth", I32.add(int(ZERO), I32.sub(v.get("high"), I32.mul(v.get("top"), int(10))))),
    ...eightDigits(v.get("best")),
    whenElse(F64.lt(v.get("size"), double(1)), placeBehindZeros(), placeAroundPoint()),
    v.set("top", UNARY.low32(I64.shrU(UNARY.leadingZeros64(I64.xor(v.get("eight"), long(ZEROS))), long(3n)))),
    v.set("dst", I32.sub(v.get("dst"), v.get("top"))),
    when(
      I32.eq(v.get("top"), int(8)),
      block(
        loop(
          leaveWhen(1, I32.ne(LOAD.byte(I32.sub(v.get("dst"), int(1))), int(ZERO))),
          v.set("dst", I32.sub(v.get("dst"), int(1))),
          leave(0),
        ),
      ),
    ),
  ];
}

/** "0.", up to three zeros, the digits. */
function placeBehindZeros(): Code[] {
  const at = (offset: number): Code => I32.add(v.get("dst"), int(offset));
  return [
    STORE.short(v.get("dst"), int(ZERO_POINT)),
    STORE.long(at(2), long(ZEROS)),
    v.set("dst", I32.sub(at(1), v.get("exponent"))),
    STORE.long(v.get("dst"), v.get("upper")),
    STORE.byte(at(8), v.get("ninth")),
    STORE.long(at(HIGH_DIGITS), v.get("eight")),
    v.add("dst", int(NUM_DIGITS)),
  ];
}

/** Up to eight digits, the point, the others. */
function placeAroundPoint(): Code[] {
  const at = (offset: number): Code => I32.add(v.get("dst"), int(offset));
  const point = I32.add(at(1), v.get("exponent"));
  const behind = I64.shrU(I64.shrU(v.get("upper"), UNARY.extend(I32.shl(v.get("exponent"), int(3)))), long(8n));
  return [
    STORE.long(v.get("dst"), v.get("upper")),
    STORE.long(I32.add(point, int(1)), behind),
    STORE.byte(point, int(POINT)),
    STORE.byte(at(9), v.get("ninth")),
    STORE.long(at(10), v.get("eight")),
    v.add("dst", int(NUM_DIGITS + 1)),
  ];
}

/** The text of a number below 10^8, its first digit in the lowest byte: by fours, pairs and single digits at once. */
function eightDigits(value: Code): Code[] {
  const number = UNARY.extend(value);
  const upper = UNARY.extend(I32.divU(value, int(10_000)));
  const split = (magic: bigint, shift: bigint, mask: bigint, base: bigint, width: bigint): Code[] => [
    v.set("quotients", I64.and(I64.shrU(I64.mul(v.get("eight"), long(magic)), long(shift)), long(mask))),
    v.set(
      "eight",
      I64.or(
        v.get("quotients"),
        I64.shl(I64.sub(v.get("eight"), I64.mul(v.get("quotients"), long(base))), long(width)),
      ),
    ),
  ];
  return [
    v.set("quotients", upper),
    v.set(
      "eight",
      I64.or(v.get("quotients"), I64.shl(I64.sub(number, I64.mul(v.get("quotients"), long(10_000n))), long(32n))),
    ),
    ...split(10_486n, 20n, 0x0000007f0000007fn, 100n, 16n),
    ...split(103n, 10n, 0x000f000f000f000fn, 10n, 8n),
    v.set("eight", I64.add(v.get("eight"), long(0x3030303030303030n))),
  ];
}
