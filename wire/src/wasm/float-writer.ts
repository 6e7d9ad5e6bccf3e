/**
 * Writes single-precision floats as JSON, each as the double that it is with the fewest digits that name it, as WebAssembly.
 *
 * A float m * 2^s times a power of ten is an integer with a fraction of 32 bits, exactly: nine digits before that point, and
 * eight more when the fraction is multiplied twice again. From these and the exact rest digits are dropped while the value stays
 * within half a unit in a double's last place. Sixteen digits become text at once. Stops in front of what is below 10^-4 and
 * not zero, from 10^8 on, or no number.
 */
import {
  block,
  type Code,
  choose,
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
} from "./assembler.ts";
import { CAREFUL, SCALE, TABLES, UNUSUAL, VECTORS } from "./float-tables.ts";

/** Of a scale: there is no number yet. */
const NONE = -1;
const LOW_RANGE = 100_000_000;
const LOW_WORD = 0xffffffffn;
/** Of 2^57, rounded up: exact for nine digits. */
const PER_LOW_RANGE = 1_441_151_881n;
/** Of 2^40, rounded up. */
const TEN_THOUSANDTH = 109_951_163n;

const v = new Variables({
  src: "i32",
  count: "i32",
  dst: "i32",
  begin: "i32",
  srcEnd: "i32",
  float: "i32",
  size: "i32",
  high: "i32",
  low: "i32",
  two: "i32",
  round: "i32",
  ten: "i32",
  least: "i32",
  ends: "i32",
  product: "i64",
  rest: "i64",
  half: "i64",
  distance: "i64",
  first: "i64",
  upper: "i64",
  lower: "i64",
  behind: "i64",
  nextScale: "i32",
  nextHead: "i64",
  nextDigits: "v128",
  scale: "i32",
  head: "i64",
  digits: "v128",
  quotients: "v128",
  hundredths: "v128",
  hundreds: "v128",
  tenths: "v128",
  tens: "v128",
  zeros: "v128",
});
const CONSTANTS = ["hundredths", "hundreds", "tenths", "tens", "zeros"] as const;

/**
 * `writeFloats(src, count, dst)`: a comma and a number for each float. Gives how many it wrote; the register then holds where
 * the text ends. Each number needs room for 32 bytes, and there must be four bytes behind the last float.
 *
 * The digits of a number are made after the next one has been scaled: what has to wait for other steps would keep the
 * processor from looking further ahead.
 */
export function floatWriter(): WasmFunction {
  return {
    name: "writeFloats",
    types: v.types,
    numParameters: 3,
    body: [
      // Constants of the code would be made anew for each number.
      ...CONSTANTS.map((name) => v.set(name, LOAD.vector(int(0), VECTORS[name]))),
      v.set("begin", v.get("src")),
      v.set("srcEnd", I32.add(v.get("src"), I32.mul(v.get("count"), int(4)))),
      v.set("scale", int(NONE)),
      block(
        loop(
          v.set("size", I32.and(v.tee("float", LOAD.int(v.get("src"))), int(0x7fffffff))),
          ...[...scale(), ...shorten(), ...split()],
          when(I32.ne(v.get("scale"), int(NONE)), ...makeDigits(), ...placeDigits()),
          leaveWhen(1, I32.geU(v.get("src"), v.get("srcEnd"))),
          v.set("head", v.get("nextHead")),
          v.set("digits", v.get("nextDigits")),
          v.set("scale", v.get("nextScale")),
          v.add("src", int(4)),
          leave(0),
        ),
      ),
      REGISTER.set(v.get("dst")),
      I32.shrU(I32.sub(v.get("src"), v.get("begin")), int(2)),
    ],
  };
}

/** Splits the number into nine digits, six digits, and two with the exact rest as 32 bits behind them. */
function scale(): Code[] {
  const mantissa = I32.or(I32.and(v.get("size"), int(0x7fffff)), int(0x800000));
  const limit = LOAD.int(v.get("nextScale"), TABLES.scales + SCALE.limit);
  return [
    v.set("nextScale", I32.and(I32.shrU(v.get("float"), int(16)), int(0xff80))),
    // The sign of what is too large, as the size of a scale.
    v.add("nextScale", I32.and(I32.shrU(I32.sub(limit, v.get("size")), int(25)), int(SCALE.numBytes))),
    v.set("product", I64.mul(UNARY.extend(mantissa), LOAD.long(v.get("nextScale"), TABLES.scales + SCALE.factor))),
    v.set("half", LOAD.long(v.get("nextScale"), TABLES.scales + SCALE.half)),
    v.set("high", UNARY.low32(I64.shrU(v.get("product"), long(32n)))),
    v.set("rest", I64.mul(I64.and(v.get("product"), long(LOW_WORD)), long(1_000_000n))),
    v.set("low", I32.mul(UNARY.low32(I64.shrU(v.get("rest"), long(32n))), int(100))),
    v.set("rest", I64.mul(I64.and(v.get("rest"), long(LOW_WORD)), long(100n))),
    v.set("two", UNARY.low32(I64.shrU(v.get("rest"), long(32n)))),
  ];
}

/**
 * Drops digits while the value stays within half a unit in the last place of the double, which is less than twelve units of
 * the seventeenth digit: one digit, where the nearest multiple of ten is that near, and with it the zeros in front of it; more
 * only where it is a multiple of a hundred, which is seldom not the nearest of ten. Whether one goes is chosen without a
 * branch: nobody can foretell it.
 */
function shorten(): Code[] {
  // Of two that are equally near the even one.
  const isOdd = UNARY.extend(I32.and(v.get("two"), int(1)));
  const nearest = UNARY.low32(I64.shrU(I64.add(I64.add(v.get("rest"), long((1n << 31n) - 1n)), isOdd), long(32n)));
  return [
    v.set("round", LOAD.byte(I32.add(v.get("two"), LOAD.int(v.get("nextScale"), TABLES.scales + SCALE.tens)))),
    when(I32.geU(v.get("round"), int(CAREFUL)), ...chooseHundred()),
    setDistance(),
    when(I64.eq(v.get("distance"), long(-5n << 32n)), ...chooseEven()),
    v.set("low", I32.add(v.get("low"), choose(isNear(), v.get("round"), nearest))),
    when(
      I32.geU(v.get("low"), int(LOW_RANGE)),
      v.set("low", I32.sub(v.get("low"), int(LOW_RANGE))),
      // Never a power of ten: no float is that near to one without being it.
      v.add("high", int(1)),
    ),
  ];
}

/** From `round`, the multiple of ten, to the value. */
function setDistance(): Code {
  return v.set("distance", I64.sub(v.get("rest"), I64.shl(UNARY.extend(v.get("round")), long(32n))));
}

/** Whether that is within half a unit in the last place of the double. */
function isNear(): Code {
  return I64.leU(I64.add(v.get("distance"), v.get("half")), I64.add(v.get("half"), v.get("half")));
}

/** The multiple of a hundred, if it is near, or the one of ten. What is not as usual ends here. */
function chooseHundred(): Code[] {
  return [
    when(I32.eq(v.get("round"), int(UNUSUAL)), v.set("srcEnd", int(0))),
    v.set("ten", I32.sub(v.get("round"), int(CAREFUL))),
    v.set("round", I32.mul(I32.geU(v.get("two"), int(50)), int(100))),
    setDistance(),
    when(UNARY.isZero(isNear()), v.set("round", v.get("ten"))),
  ];
}

/** The lower of two multiples of ten that are equally near when the upper is odd. */
function chooseEven(): Code[] {
  const isOdd = I32.and(I32.divU(v.get("round"), int(10)), int(1));
  return [v.set("round", I32.sub(v.get("round"), I32.mul(isOdd, int(10)))), setDistance()];
}

/** What is in front of the digits, with the first of them, and the other sixteen by fours. */
function split(): Code[] {
  const place = LOAD.long(v.get("nextScale"), TABLES.scales + SCALE.place);
  return [
    v.set("first", I64.shrU(I64.mul(UNARY.extend(v.get("high")), long(PER_LOW_RANGE)), long(57n))),
    v.set("high", I32.sub(v.get("high"), I32.mul(UNARY.low32(v.get("first")), int(LOW_RANGE)))),
    v.set(
      "nextHead",
      I64.add(LOAD.long(v.get("nextScale"), TABLES.scales + SCALE.head), I64.mul(v.get("first"), place)),
    ),
    ...splitInFours("upper", UNARY.extend(v.get("high"))),
    ...splitInFours("lower", UNARY.extend(v.get("low"))),
    v.set("nextDigits", VECTOR.high64(VECTOR.splat64(v.get("upper")), v.get("lower"))),
  ];
}

/** The text of digits by fours, the first in the lowest byte: by pairs, then single digits. */
function makeDigits(): Code[] {
  const digits = v.get("digits");
  const quotients = v.get("quotients");
  return [
    v.set("quotients", LANES.shrU32(LANES.dot(digits, v.get("hundredths")), int(19))),
    v.set(
      "digits",
      LANES.or(quotients, LANES.shl32(LANES.sub32(digits, LANES.dot(quotients, v.get("hundreds"))), int(16))),
    ),
    v.set("quotients", LANES.shrU16(LANES.mul16(digits, v.get("tenths")), int(10))),
    v.set("digits", LANES.sub16(LANES.shl16(digits, int(8)), LANES.mul16(quotients, v.get("tens")))),
    v.set("digits", LANES.add8(digits, v.get("zeros"))),
  ];
}

/** The text in front, then sixteen digits without the zeros at their end. */
function placeDigits(): Code[] {
  return [
    STORE.long(v.get("dst"), v.get("head")),
    v.add("dst", LOAD.int(v.get("scale"), TABLES.scales + SCALE.numBefore)),
    STORE.vector(v.get("dst"), v.get("digits")),
    v.set("least", LOAD.int(v.get("scale"), TABLES.scales + SCALE.least)),
    v.set("ends", VECTOR.bitmask8(LANES.greater8(v.get("digits"), v.get("zeros")))),
    when(v.get("least"), ...placePoint()),
    v.set("dst", I32.sub(I32.add(v.get("dst"), int(32)), UNARY.leadingZeros(v.get("ends")))),
  ];
}

/** Behind up to seven digits. One more stays, if it is a zero. */
function placePoint(): Code[] {
  const upper = v.get("upper");
  const behind = v.get("behind");
  const point = LOAD.long(v.get("scale"), TABLES.scales + SCALE.point);
  return [
    v.set("upper", VECTOR.low64(v.get("digits"))),
    v.set("behind", I64.and(upper, LOAD.long(v.get("scale"), TABLES.scales + SCALE.behind))),
    STORE.long(I32.sub(v.get("dst"), int(1)), I64.or(I64.or(I64.xor(upper, behind), point), I64.shl(behind, long(8n)))),
    v.set("ends", I32.or(v.get("ends"), v.get("least"))),
  ];
}

/** The upper four digits of a number as 32 bits, and above them the lower four. */
function splitInFours(name: "upper" | "lower", number: Code): Code[] {
  const fours = v.get(name);
  const upperFour = I64.shrU(I64.mul(fours, long(TEN_THOUSANDTH)), long(40n));
  return [
    v.set(name, number),
    v.set(name, I64.sub(I64.shl(fours, long(32n)), I64.mul(upperFour, long((10_000n << 32n) - 1n)))),
  ];
}
