/**
 * Reads numbers of a JSON array into single-precision floats, as WebAssembly: 32 characters are looked at together, which
 * shows where the number has its point and its end, and sixteen digits become a number at once. Stops in front of whatever is
 * not as usual, and of a number whose rounding is not certain: they are left to the caller.
 */
import {
  block,
  bytes16,
  type Code,
  choose,
  F64,
  I32,
  I64,
  int,
  LANES,
  LOAD,
  leaveWhen,
  long,
  loop,
  REGISTER,
  STORE,
  shorts8,
  UNARY,
  Variables,
  VECTOR,
  type WasmFunction,
  when,
  whenElse,
} from "./assembler.ts";
import { TABLES } from "./float-tables.ts";

const COMMA = 0x2c;
const SPACE = 0x20;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const LOWER_E = 0x65;
const LOWER = 0x20;
/** All digits are exact in 64 bits up to here. */
const MAX_DIGITS = 19;
const MAX_WHOLE_DIGITS = 15;
const VECTOR_DIGITS = 16;
/** Of the digits behind the point, so many may stand in front of the last sixteen. */
const MAX_LEADING_DIGITS = 4;
/** Distance in units of a double's last place from the middle of two floats, within which a quotient may mislead. */
const DOUBT = 32n;

const v = new Variables({
  at: "i32",
  end: "i32",
  out: "i32",
  max: "i32",
  count: "i32",
  start: "i32",
  isNegative: "i32",
  others: "i32",
  pointAt: "i32",
  next: "i32",
  behind: "i32",
  numWhole: "i32",
  numDigits: "i32",
  numLast: "i32",
  numLeading: "i32",
  four: "i32",
  p: "i32",
  whole: "i64",
  eight: "i64",
  value: "f64",
  digits: "v128",
});

const tenTo = (power: Code): Code => LOAD.long(I32.shl(power, int(3)), TABLES.longs);

/**
 * `readFloats(at, end, out, max)`: takes a comma and a number again and again, and stores the floats from `out` on. Gives how
 * many; the register then holds where it stopped. Around the text there must be 32 bytes more.
 */
export function floatReader(): WasmFunction {
  // The depth of a `leave` that ends it all: the loop, and the block around it.
  const stop = 1;
  return {
    name: "readFloats",
    types: v.types,
    numParameters: 4,
    body: [
      block(
        leaveWhen(0, I32.ne(LOAD.byte(v.get("at")), int(COMMA))),
        loop(
          leaveWhen(stop, I32.geU(v.get("count"), v.get("max"))),
          ...findParts(),
          ...readWhole(stop),
          whenElse(I32.eq(LOAD.byte(v.get("next")), int(POINT)), readFraction(stop + 1), [
            // "-0" is an integer and so has no sign.
            leaveWhen(stop + 1, I32.and(v.get("isNegative"), UNARY.isZero64(v.get("whole")))),
            v.set("value", UNARY.floatOfLong(v.get("whole"))),
          ]),
          leaveWhen(stop, I32.geU(v.get("next"), v.get("end"))),
          v.set("behind", LOAD.byte(v.get("next"))),
          when(
            I32.ne(v.get("behind"), int(COMMA)),
            leaveWhen(stop + 1, I32.eq(I32.or(v.get("behind"), int(LOWER)), int(LOWER_E))),
          ),
          ...round(stop),
          v.add("out", int(4)),
          v.add("count", int(1)),
          v.set("at", v.get("next")),
          leaveWhen(0, I32.eq(v.get("behind"), int(COMMA))),
        ),
      ),
      REGISTER.set(v.get("at")),
      v.get("count"),
    ],
  };
}

/**
 * Over the comma and one space. `others` then has a bit for each character that is no digit, the sign left out; the lowest is
 * at the point or behind the number.
 */
function findParts(): Code[] {
  // Digits become the largest numbers with a sign that a byte can hold.
  const isDigit = (offset: number): Code =>
    VECTOR.bitmask8(LANES.greater8(LANES.add8(LOAD.vector(v.get("start"), offset), bytes16(0x46)), bytes16(0x75)));
  return [
    v.set("start", I32.add(v.get("at"), int(1))),
    when(I32.eq(LOAD.byte(v.get("start")), int(SPACE)), v.add("start", int(1))),
    v.set("isNegative", I32.eq(LOAD.byte(v.get("start")), int(MINUS))),
    v.set("others", I32.or(isDigit(0), I32.shl(isDigit(VECTOR_DIGITS), int(VECTOR_DIGITS)))),
    v.set("others", I32.xor(I32.or(v.get("others"), v.get("isNegative")), int(-1))),
    v.set("pointAt", UNARY.trailingZeros(v.get("others"))),
    v.set("next", I32.add(v.get("start"), v.get("pointAt"))),
    v.set("numWhole", I32.sub(v.get("pointAt"), v.get("isNegative"))),
  ];
}

/** The digits in front of `next`: one, or several of which the first is no zero. */
function readWhole(stop: number): Code[] {
  const first = LOAD.byte(I32.add(v.get("start"), v.get("isNegative")));
  return [
    // None, or so many that the sum may be wrong.
    leaveWhen(stop, I32.geU(I32.sub(v.get("numWhole"), int(1)), int(MAX_WHOLE_DIGITS))),
    v.set("whole", UNARY.extend(I32.sub(first, int(ZERO)))),
    when(
      I32.ne(v.get("numWhole"), int(1)),
      leaveWhen(stop + 1, UNARY.isZero64(v.get("whole"))),
      v.set("p", I32.add(v.get("start"), v.get("isNegative"))),
      loop(
        v.add("p", int(1)),
        v.set(
          "whole",
          I64.add(I64.mul(v.get("whole"), long(10n)), UNARY.extend(I32.sub(LOAD.byte(v.get("p")), int(ZERO)))),
        ),
        leaveWhen(0, I32.ltU(v.get("p"), I32.sub(v.get("next"), int(1)))),
      ),
    ),
  ];
}

/** The last sixteen digits behind the point at `next`, or as many as there are, and up to four in front of them. */
function readFraction(stop: number): Code[] {
  const numLast = v.get("numLast");
  const others = v.get("others");
  const isLong = I32.gtU(v.get("numDigits"), int(VECTOR_DIGITS));
  return [
    v.set("others", I32.and(others, I32.sub(others, int(1)))),
    leaveWhen(stop, UNARY.isZero(others)),
    v.set("p", I32.add(v.get("next"), int(1))),
    v.set("next", I32.add(v.get("start"), UNARY.trailingZeros(others))),
    v.set("numDigits", I32.sub(v.get("next"), v.get("p"))),
    leaveWhen(stop, UNARY.isZero(v.get("numDigits"))),
    v.set("numLast", choose(isLong, int(VECTOR_DIGITS), v.get("numDigits"))),
    v.set("numLeading", I32.sub(v.get("numDigits"), numLast)),
    leaveWhen(stop, I32.gtU(v.get("numLeading"), int(MAX_LEADING_DIGITS))),
    ...readLeading(),
    leaveWhen(stop, I64.geU(v.get("whole"), tenTo(I32.sub(int(MAX_DIGITS), numLast)))),
    ...readLast(),
    v.set(
      "value",
      F64.div(UNARY.floatOfLong(v.get("whole")), LOAD.double(I32.shl(v.get("numDigits"), int(3)), TABLES.doubles)),
    ),
  ];
}

/** Up to four digits from `p` on, as if zeros stood in front of them: pairs, then all. */
function readLeading(): Code[] {
  const four = v.get("four");
  const shift = UNARY.extend(I32.sub(int(32), I32.shl(v.get("numLeading"), int(3))));
  const digits = I64.xor(LOAD.intAsLong(v.get("p")), long(0x30303030n));
  return [
    v.set("four", UNARY.low32(I64.shl(digits, shift))),
    v.set("four", I32.and(I32.add(I32.mul(four, int(10)), I32.shrU(four, int(8))), int(0x00ff00ff))),
    v.set("four", I32.add(I32.mul(I32.and(four, int(255)), int(100)), I32.shrU(four, int(16)))),
    v.set("whole", I64.add(I64.mul(v.get("whole"), tenTo(v.get("numLeading"))), UNARY.extend(four))),
  ];
}

/** Sixteen digits in front of `next`, of which only the last count: pairs, fours, eights. */
function readLast(): Code[] {
  const digits = v.get("digits");
  const characters = LOAD.vector(I32.sub(v.get("next"), int(VECTOR_DIGITS)));
  return [
    v.set("digits", LANES.and(LANES.sub8(characters, bytes16(ZERO)), LOAD.vector(v.get("numLast"), TABLES.lastBytes))),
    v.set("digits", LANES.shrU16(LANES.mul16(digits, shorts8(2561)), int(8))),
    v.set("digits", LANES.dot(digits, shorts8(100, 1))),
    v.set("digits", LANES.dot(LANES.narrow32(digits, digits), shorts8(10_000, 1))),
    v.set("eight", VECTOR.low64(digits)),
    v.set(
      "eight",
      I64.add(
        I64.mul(I64.and(v.get("eight"), long(0xffffffffn)), long(100_000_000n)),
        I64.shrU(v.get("eight"), long(32n)),
      ),
    ),
    v.set("whole", I64.add(I64.mul(v.get("whole"), tenTo(v.get("numLast"))), v.get("eight"))),
  ];
}

/** Stops where the value is too near to the middle of two floats. */
function round(stop: number): Code[] {
  const below = I64.and(UNARY.bits(v.get("value")), long(0x1fffffffn));
  const fromMiddle = I64.sub(below, long(0x10000000n - DOUBT));
  return [
    // As without sign: what lies below wraps around to something large.
    leaveWhen(stop, I64.leU(fromMiddle, long(2n * DOUBT))),
    STORE.int(v.get("out"), I32.or(UNARY.bitsOfSingle(v.get("value")), I32.shl(v.get("isNegative"), int(31)))),
  ];
}
