/**
 * Reads numbers of a JSON array into single-precision floats, as WebAssembly: 32 characters are looked at together, which
 * shows where the number has its point and its end, and sixteen digits become a number at once. Stops in front of whatever is
 * not as usual, and of a number whose rounding is not certain: they are left to the caller.
 */
import {
  block,
  type Code,
  F64,
  I32,
  I64,
  int,
  LANES,
  LOAD,
  leave,
  leaveWhen,
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
import { READER_VECTORS, TABLES } from "./float-tables.ts";

const COMMA = 0x2c;
const SPACE = 0x20;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const LOWER_E = 0x65;
const LOWER = 0x20;
const MAX_WHOLE_DIGITS = 15;
const VECTOR_DIGITS = 16;
const FLOAT_BYTES = 4;
/**
 * Distance in units of a double's last place from the middle of two floats, within which the value may mislead: digits that
 * are left out, behind the sixteenth, are up to 3690 for the least number, all else a few.
 */
const DOUBT = 4096;
/** What of a double's bits is no part of a float. */
const BELOW_BITS = 29;

const v = new Variables({
  at: "i32",
  end: "i32",
  out: "i32",
  max: "i32",
  outEnd: "i32",
  start: "i32",
  isNegative: "i32",
  others: "i32",
  next: "i32",
  commaAt: "i32",
  numWhole: "i32",
  numDigits: "i32",
  p: "i32",
  bits: "i64",
  value: "f64",
  digits: "v128",
  lower: "v128",
  upper: "v128",
  toTop: "v128",
  top: "v128",
  commas: "v128",
  zeros: "v128",
  pairs: "v128",
  fours: "v128",
  eights: "v128",
  fraction: "v128",
});
const CONSTANTS = ["toTop", "top", "commas", "zeros", "pairs", "fours", "eights", "fraction"] as const;

/**
 * `readFloats(at, end, out, max)`: takes a comma and a number again and again, and stores the floats from `out` on. Gives how
 * many; the register then holds where it stopped. Around the text there must be 64 bytes more.
 */
export function floatReader(): WasmFunction {
  // The depth of a `leave` that ends it all: the loop, and the block around it.
  const stop = 1;
  return {
    name: "readFloats",
    types: v.types,
    numParameters: 4,
    body: [
      // Constants of the code would be made anew for each number.
      ...CONSTANTS.map((name) => v.set(name, vector(name))),
      v.set("outEnd", I32.add(v.get("out"), I32.mul(v.get("max"), int(FLOAT_BYTES)))),
      block(
        leaveWhen(0, I32.ne(LOAD.byte(v.get("at")), int(COMMA))),
        loop(
          leaveWhen(stop, I32.geU(v.get("out"), v.get("outEnd"))),
          ...findParts(),
          ...readWhole(stop),
          whenElse(I32.eq(LOAD.byte(v.get("next")), int(POINT)), readFraction(stop + 1), [
            v.set("bits", UNARY.bits(v.get("value"))),
            // "-0" is an integer and so has no sign.
            leaveWhen(stop + 1, I32.and(v.get("isNegative"), UNARY.isZero64(v.get("bits")))),
          ]),
          leaveWhen(stop, I32.geU(v.get("next"), v.get("end"))),
          when(
            I32.ne(v.get("next"), v.get("commaAt")),
            leaveWhen(stop + 1, I32.eq(I32.or(LOAD.byte(v.get("next")), int(LOWER)), int(LOWER_E))),
          ),
          ...round(stop),
          v.add("out", int(FLOAT_BYTES)),
          v.set("at", v.get("next")),
          // The same, but known earlier: the next number begins while this one is still computed.
          when(I32.eq(v.get("next"), v.get("commaAt")), v.set("at", v.get("commaAt")), leave(1)),
        ),
      ),
      REGISTER.set(v.get("at")),
      I32.sub(v.get("max"), I32.shrU(I32.sub(v.get("outEnd"), v.get("out")), int(2))),
    ],
  };
}

/**
 * Over the comma and one space. `others` then has a bit for each character that is no digit, the sign left out; the lowest is
 * at `next`, the point or what is behind the number. `commaAt` is nowhere when there is no comma in the text.
 */
function findParts(): Code[] {
  const commas = whereAll((characters) => LANES.equal8(characters, v.get("commas")));
  const others = whereAll((characters) => LANES.greater8(v.get("top"), LANES.add8(characters, v.get("toTop"))));
  return [
    v.set("start", I32.add(v.get("at"), int(1))),
    when(I32.eq(LOAD.byte(v.get("start")), int(SPACE)), v.add("start", int(1))),
    v.set("lower", LOAD.vector(v.get("start"))),
    v.set("upper", LOAD.vector(v.get("start"), VECTOR_DIGITS)),
    v.set("commaAt", I32.add(v.get("start"), UNARY.trailingZeros(commas))),
    // Asked here, so that the engine computes it here and not where it is needed.
    when(I32.geU(v.get("commaAt"), v.get("end")), v.set("commaAt", int(0))),
    v.set("isNegative", I32.eq(LOAD.byte(v.get("start")), int(MINUS))),
    v.set("others", I32.xor(others, v.get("isNegative"))),
    v.set("numWhole", UNARY.trailingZeros(v.get("others"))),
    v.set("next", I32.add(v.get("start"), v.get("numWhole"))),
    v.set("numWhole", I32.sub(v.get("numWhole"), v.get("isNegative"))),
  ];
}

/** A bit for each of the 32 characters. */
function whereAll(test: (characters: Code) => Code): Code {
  const upper = I32.shl(VECTOR.bitmask8(test(v.get("upper"))), int(VECTOR_DIGITS));
  return I32.or(VECTOR.bitmask8(test(v.get("lower"))), upper);
}

/** The digits in front of `next`: one, or several of which the first is no zero. Exact. */
function readWhole(stop: number): Code[] {
  const first = LOAD.byte(I32.add(v.get("start"), v.get("isNegative")));
  return [
    v.set("p", I32.sub(first, int(ZERO))),
    whenElse(
      I32.eq(v.get("numWhole"), int(1)),
      [v.set("value", UNARY.floatOfInt(v.get("p")))],
      [
        // None, or so many that the sum may be wrong.
        leaveWhen(stop + 1, I32.geU(I32.sub(v.get("numWhole"), int(1)), int(MAX_WHOLE_DIGITS))),
        leaveWhen(stop + 1, UNARY.isZero(v.get("p"))),
        ...readEights(
          LOAD.vector(I32.sub(v.get("next"), int(VECTOR_DIGITS))),
          LOAD.vector(v.get("numWhole"), TABLES.lastBytes),
        ),
        v.set("value", sum(vector("whole"))),
      ],
    ),
  ];
}

/** The first sixteen digits behind the point at `next`; of small numbers all that there are. */
function readFraction(stop: number): Code[] {
  const others = v.get("others");
  const maskAt = I32.sub(int(TABLES.firstBytesEnd), v.get("numDigits"));
  return [
    v.set("others", I32.and(others, I32.sub(others, int(1)))),
    leaveWhen(stop, UNARY.isZero(others)),
    v.set("p", I32.add(v.get("next"), int(1))),
    v.set("next", I32.add(v.get("start"), UNARY.trailingZeros(others))),
    v.set("numDigits", I32.sub(v.get("next"), v.get("p"))),
    leaveWhen(stop, UNARY.isZero(v.get("numDigits"))),
    ...readEights(LOAD.vector(v.get("p")), LOAD.vector(maskAt)),
    v.set("value", F64.add(v.get("value"), sum(v.get("fraction")))),
    v.set("bits", UNARY.bits(v.get("value"))),
    when(
      I64.ltU(v.get("bits"), LOAD.long(I32.shl(v.get("numDigits"), int(3)), TABLES.least)),
      ...readEights(LOAD.vector(v.get("p"), VECTOR_DIGITS), LOAD.vector(I32.add(maskAt, int(VECTOR_DIGITS)))),
      v.set("value", F64.add(v.get("value"), sum(vector("farFraction")))),
      v.set("bits", UNARY.bits(v.get("value"))),
    ),
  ];
}

/** Sets `digits` to two numbers of eight digits each: pairs, fours, eights. What the mask hides counts as zeros. */
function readEights(characters: Code, mask: Code): Code[] {
  const digits = v.get("digits");
  return [
    v.set("digits", LANES.and(LANES.sub8(characters, v.get("zeros")), mask)),
    v.set("digits", LANES.shrU16(LANES.mul16(digits, v.get("pairs")), int(8))),
    v.set("digits", LANES.dot(digits, v.get("fours"))),
    v.set("digits", LANES.dot(LANES.narrow32(digits, digits), v.get("eights"))),
    v.set("digits", VECTOR.doubles(v.get("digits"))),
  ];
}

/** Of the two numbers in `digits`, each by its factor. */
function sum(factors: Code): Code {
  const product = LANES.mulDoubles(v.get("digits"), factors);
  return F64.add(VECTOR.firstDouble(v.tee("digits", product)), VECTOR.secondDouble(v.get("digits")));
}

/** Stops where the value is too near to the middle of two floats. */
function round(stop: number): Code[] {
  const shift = 32 - BELOW_BITS;
  const below = I32.shl(UNARY.low32(v.get("bits")), int(shift));
  const middle = 2 ** (BELOW_BITS - 1);
  return [
    // Without sign: what lies below wraps around to something large.
    leaveWhen(stop, I32.leU(I32.add(below, int(((DOUBT - middle) << shift) | 0)), int((2 * DOUBT) << shift))),
    STORE.int(v.get("out"), I32.or(UNARY.bitsOfSingle(v.get("value")), I32.shl(v.get("isNegative"), int(31)))),
  ];
}

function vector(name: keyof typeof READER_VECTORS): Code {
  return LOAD.vector(int(0), READER_VECTORS[name]);
}
