/**
 * Writes single-precision floats as JSON, each as the double that it is with the fewest digits that name it, as WebAssembly.
 *
 * A float m * 2^s times a power of ten is an integer with a fraction of 32 bits, exactly: nine digits before that point, and
 * eight more when the fraction is multiplied again. From these and the exact rest digits are dropped while the value stays
 * within half a unit in a double's last place. Sixteen digits become text at once. Stops in front of numbers that have an
 * exponent or are none.
 */
import {
  block,
  type Code,
  choose,
  double,
  F64,
  I32,
  I64,
  int,
  LANES,
  LOAD,
  leave,
  leaveWhen,
  long,
  loop,
  REGISTER,
  STORE,
  UNARY,
  Variables,
  VECTOR,
  type WasmFunction,
  when,
  whenElse,
} from "./assembler.ts";
import { FIRST_EXPONENT, SCALE, TABLES, VECTORS } from "./float-tables.ts";

const ZERO = 0x30;
const POINT = 0x2e;
const POINT_ZERO: number = POINT + ZERO * 256;
const COMMA_MINUS = 0x2d2c;
/** "0." and zeros. */
const ZERO_POINT_ZEROS = 0x3030303030302e30n;
/** The bits of the smallest float from 10^-4 on, of 1, and of 2^24. */
const SMALLEST = 0x38d1b718;
const ONE = 0x3f800000;
const LIMIT = 0x4b800000;
const LARGEST_WHOLE = 1e8;
const LOW_RANGE = 100_000_000;
const LOW_WORD = 0xffffffffn;
/** Of 2^40, rounded up. */
const TEN_THOUSANDTH = 109_951_163n;

const v = new Variables({
  src: "i32",
  count: "i32",
  dst: "i32",
  done: "i32",
  before: "i32",
  size: "i32",
  scale: "i32",
  exponent: "i32",
  high: "i32",
  low: "i32",
  best: "i32",
  step: "i32",
  quotient: "i32",
  isUp: "i32",
  over32: "i32",
  first: "i32",
  at: "i32",
  product: "i64",
  rest: "i64",
  half: "i64",
  over: "i64",
  upper: "i64",
  shift: "i64",
  whole: "f64",
  digits: "v128",
  quotients: "v128",
});

/**
 * `writeFloats(src, count, dst)`: a comma and a number for each float. Gives how many it wrote; the register then holds where
 * the text ends. Each number needs room for 32 bytes.
 */
export function floatWriter(): WasmFunction {
  const isWhole = I32.and(
    F64.eq(v.get("whole"), UNARY.truncate(v.get("whole"))),
    F64.lt(v.get("whole"), double(LARGEST_WHOLE)),
  );
  const isSmall = I32.ltU(I32.sub(v.get("size"), int(SMALLEST)), int(ONE - SMALLEST));
  const isUsual = I32.ltU(I32.sub(v.get("size"), int(ONE)), int(LIMIT - ONE));
  return {
    name: "writeFloats",
    types: v.types,
    numParameters: 3,
    body: [
      block(
        loop(
          leaveWhen(1, I32.geU(v.get("done"), v.get("count"))),
          v.set("before", v.get("dst")),
          v.set("size", LOAD.int(v.get("src"))),
          STORE.short(v.get("dst"), int(COMMA_MINUS)),
          v.add("dst", I32.add(int(1), I32.shrU(v.get("size"), int(31)))),
          v.set("size", I32.and(v.get("size"), int(0x7fffffff))),
          whenElse(
            isSmall,
            [...scale(), ...shorten(), ...makeDigits(), ...placeBehindZeros(), ...endDigits()],
            [
              v.set("whole", UNARY.abs(LOAD.float(v.get("src")))),
              whenElse(isWhole, writeWhole(), [
                when(UNARY.isZero(isUsual), v.set("dst", v.get("before")), leave(4)),
                ...[...scale(), ...shorten(), ...makeDigits(), ...placeAroundPoint(), ...endDigits()],
              ]),
            ],
          ),
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

/** Eight digits without the zeros in front, then ".0". */
function writeWhole(): Code[] {
  const numDigits = [10, 100, 1000, 1e4, 1e5, 1e6, 1e7]
    .map((limit) => F64.ge(v.get("whole"), double(limit)))
    .reduce((sum, one) => I32.add(sum, one), int(1));
  return [
    ...digitsOf(UNARY.extend(UNARY.intOfFloat(v.get("whole"))), long(0n)),
    v.set("at", numDigits),
    v.set("shift", I64.shl(UNARY.extend(I32.sub(int(8), v.get("at"))), long(3n))),
    STORE.long(v.get("dst"), I64.shrU(VECTOR.low64(v.get("digits")), v.get("shift"))),
    v.add("dst", v.get("at")),
    STORE.short(v.get("dst"), int(POINT_ZERO)),
    v.add("dst", int(2)),
  ];
}

/** Splits the number into nine digits, eight digits, and those eight with the exact rest as 32 bits behind them. */
function scale(): Code[] {
  const biased = I32.sub(I32.shrU(v.get("size"), int(23)), int(FIRST_EXPONENT));
  const isAbove = I32.geU(v.get("size"), LOAD.int(v.get("scale"), TABLES.scales + SCALE.limit));
  const mantissa = I32.or(I32.and(v.get("size"), int(0x7fffff)), int(0x800000));
  return [
    v.set("scale", I32.mul(biased, int(2 * SCALE.numBytes))),
    v.add("scale", I32.mul(isAbove, int(SCALE.numBytes))),
    v.set("product", I64.mul(UNARY.extend(mantissa), LOAD.long(v.get("scale"), TABLES.scales + SCALE.factor))),
    v.set("half", LOAD.long(v.get("scale"), TABLES.scales + SCALE.half)),
    v.set("exponent", LOAD.int(v.get("scale"), TABLES.scales + SCALE.exponent)),
    v.set("high", UNARY.low32(I64.shrU(v.get("product"), long(32n)))),
    v.set("rest", I64.mul(I64.and(v.get("product"), long(LOW_WORD)), long(BigInt(LOW_RANGE)))),
    v.set("low", UNARY.low32(I64.shrU(v.get("rest"), long(32n)))),
  ];
}

/**
 * Drops digits while the value stays within half a unit in the last place. Whether one goes is chosen without a branch: nobody
 * can foretell it. That more go is seldom.
 */
function shorten(): Code[] {
  // Of two that are equally near the even one.
  const isOdd = UNARY.extend(I32.and(v.get("low"), int(1)));
  const nearest = UNARY.low32(I64.shrU(I64.add(I64.add(v.get("rest"), long((1n << 31n) - 1n)), isOdd), long(32n)));
  const step = v.get("step");
  return [
    ...round(int(10), long(10n << 32n), long(5n << 32n)),
    v.set("best", choose(isNear(long(10n << 32n)), candidate(int(10)), nearest)),
    // The upper end of what names the double, and whether a multiple of 100 may lie between it and the lower end.
    v.set("quotient", UNARY.low32(I64.shrU(I64.add(v.get("rest"), v.get("half")), long(32n)))),
    v.set("over32", I32.sub(v.get("quotient"), I32.mul(I32.divU(v.get("quotient"), int(100)), int(100)))),
    when(
      I32.leU(v.get("over32"), UNARY.low32(I64.shrU(v.get("half"), long(31n)))),
      v.set("step", int(100)),
      block(
        loop(
          v.set("shift", I64.shl(UNARY.extend(step), long(32n))),
          ...round(step, v.get("shift"), I64.shrU(v.get("shift"), long(1n))),
          leaveWhen(1, UNARY.isZero(isNear(v.get("shift")))),
          v.set("best", candidate(step)),
          v.set("step", I32.mul(step, int(10))),
          leaveWhen(0, I32.ltU(step, int(LOW_RANGE + 1))),
        ),
      ),
    ),
    when(
      I32.geU(v.get("best"), int(LOW_RANGE)),
      v.set("best", I32.sub(v.get("best"), int(LOW_RANGE))),
      // Never a power of ten: no float is that near to one without being it.
      v.add("high", int(1)),
    ),
  ];
}

/** The nearest multiple of `step`, of two the even one. `unit` is a step in units of `rest`, `middle` half of it. */
function round(step: Code, unit: Code, middle: Code): Code[] {
  const quotient = v.get("quotient");
  return [
    v.set("quotient", I32.divU(v.get("low"), step)),
    v.set("over", I64.sub(v.get("rest"), I64.mul(UNARY.extend(quotient), unit))),
    v.set("isUp", I64.gtU(I64.add(v.get("over"), UNARY.extend(I32.and(quotient, int(1)))), middle)),
  ];
}

/** Whether it is within half a unit in the last place of the double. */
function isNear(unit: Code): Code {
  const distance = I64.sub(v.get("over"), choose(v.get("isUp"), unit, long(0n)));
  return I64.leU(I64.add(distance, v.get("half")), I64.add(v.get("half"), v.get("half")));
}

function candidate(step: Code): Code {
  return I32.mul(I32.add(v.get("quotient"), v.get("isUp")), step);
}

/** The first digit and sixteen more. */
function makeDigits(): Code[] {
  const top = I32.sub(v.get("high"), I32.mul(v.get("first"), int(LOW_RANGE)));
  return [
    v.set("first", I32.divU(v.get("high"), int(LOW_RANGE))),
    ...digitsOf(UNARY.extend(top), UNARY.extend(v.get("best"))),
    v.add("first", int(ZERO)),
  ];
}

/** Zeros at the end of the sixteen digits go, which are at `at` and two. */
function endDigits(): Code[] {
  const lastDigit = UNARY.leadingZeros(VECTOR.bitmask8(LANES.greater8(v.get("digits"), vector(VECTORS.zeros))));
  return [v.set("dst", I32.sub(I32.add(v.get("at"), int(34)), lastDigit))];
}

/** "0.", up to three zeros, the digits. `at` is two in front of the sixteen. */
function placeBehindZeros(): Code[] {
  return [
    STORE.long(v.get("dst"), long(ZERO_POINT_ZEROS)),
    v.set("at", I32.sub(v.get("dst"), v.get("exponent"))),
    STORE.byte(v.get("at"), v.get("first"), 1),
    STORE.vector(v.get("at"), v.get("digits"), 2),
  ];
}

/** Up to eight digits, the point, the others. */
function placeAroundPoint(): Code[] {
  const upper = v.get("upper");
  const shift = v.get("shift");
  const behind = I64.shl(I64.shrU(upper, shift), shift);
  const around = I64.or(I64.xor(upper, behind), I64.or(I64.shl(long(BigInt(POINT)), shift), I64.shl(behind, long(8n))));
  return [
    v.set("upper", VECTOR.low64(v.get("digits"))),
    v.set("shift", UNARY.extend(I32.shl(v.get("exponent"), int(3)))),
    STORE.vector(v.get("dst"), v.get("digits"), 2),
    STORE.byte(v.get("dst"), v.get("first")),
    STORE.long(v.get("dst"), around, 1),
    v.set("at", v.get("dst")),
  ];
}

/**
 * Sets `digits` to the text of two numbers below 10^8, the first digit in the lowest byte: by fours, then by pairs and single
 * digits, all at once.
 */
function digitsOf(first: Code, second: Code): Code[] {
  const digits = v.get("digits");
  const quotients = v.get("quotients");
  return [
    ...splitInFours("upper", first),
    ...splitInFours("shift", second),
    v.set("digits", VECTOR.high64(VECTOR.splat64(v.get("upper")), v.get("shift"))),
    v.set("quotients", LANES.shrU32(LANES.dot(digits, vector(VECTORS.hundredths)), int(19))),
    v.set(
      "digits",
      LANES.or(quotients, LANES.shl32(LANES.sub32(digits, LANES.dot(quotients, vector(VECTORS.hundreds))), int(16))),
    ),
    v.set("quotients", LANES.shrU16(LANES.mul16(digits, vector(VECTORS.tenths)), int(10))),
    v.set(
      "digits",
      LANES.or(quotients, LANES.shl16(LANES.sub16(digits, LANES.mul16(quotients, vector(VECTORS.tens))), int(8))),
    ),
    v.set("digits", LANES.add8(digits, vector(VECTORS.zeros))),
  ];
}

/** The upper four digits of a number as 32 bits, and above them the lower four. */
function splitInFours(name: "upper" | "shift", number: Code): Code[] {
  const fours = v.get(name);
  const upperFour = I64.shrU(I64.mul(fours, long(TEN_THOUSANDTH)), long(40n));
  return [
    v.set(name, number),
    v.set(name, I64.sub(I64.shl(fours, long(32n)), I64.mul(upperFour, long((10_000n << 32n) - 1n)))),
  ];
}

/** From memory: as constants they would take the registers of the loop. */
function vector(address: number): Code {
  return LOAD.vector(int(0), address);
}
