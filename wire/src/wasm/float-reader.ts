/**
 * Reads numbers of a JSON array into single-precision floats, as WebAssembly: eight digits at a time. Stops in front of
 * whatever is not as usual, and of a number whose rounding is not certain: they are left to the caller.
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

const COMMA = 0x2c;
const SPACE = 0x20;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const LOWER_E = 0x65;
const LOWER = 0x20;
/** All digits are exact in 64 bits up to here, and powers of ten in a double. */
const MAX_DIGITS = 19;
const MAX_WHOLE_DIGITS = 15;
const MAX_POWER = 22;
/** Distance in units of a double's last place from the middle of two floats, within which a quotient may mislead. */
const DOUBT = 32n;

/** Powers of ten in the memory: as doubles from 1 to 10^22, as integers from 1 to 10^7. */
export interface PowerTables {
  readonly doubles: number;
  readonly longs: number;
}

const v = new Variables({
  at: "i32",
  end: "i32",
  out: "i32",
  max: "i32",
  count: "i32",
  p: "i32",
  first: "i32",
  start: "i32",
  power: "i32",
  digit: "i32",
  isNegative: "i32",
  whole: "i64",
  bytes: "i64",
  mask: "i64",
  value: "f64",
});

const byteAt = (name: "at" | "p"): Code => LOAD.byte(v.get(name));
const every = (byte: bigint): Code => long(byte * 0x0101010101010101n);

/**
 * `readFloats(at, end, out, max)`: takes a comma and a number again and again, and stores the floats from `out` on. Gives how
 * many; the register then holds where it stopped. Behind `end` there must be eight bytes more.
 */
export function floatReader(tables: PowerTables): WasmFunction {
  // The depth of a `leave` that ends it all: the loop, and the block around it.
  const stop = 1;
  return {
    name: "readFloats",
    types: v.types,
    numParameters: 4,
    body: [
      block(
        loop(
          leaveWhen(stop, I32.geU(v.get("count"), v.get("max"))),
          leaveWhen(stop, I32.ne(byteAt("at"), int(COMMA))),
          ...readStart(),
          ...readWhole(stop),
          ...readFraction(stop, tables),
          leaveWhen(stop, I32.eq(I32.or(byteAt("p"), int(LOWER)), int(LOWER_E))),
          leaveWhen(stop, I32.geU(v.get("p"), v.get("end"))),
          ...round(stop, tables),
          v.add("out", int(4)),
          v.add("count", int(1)),
          v.set("at", v.get("p")),
          leave(0),
        ),
      ),
      REGISTER.set(v.get("at")),
      v.get("count"),
    ],
  };
}

/** Over the comma, one space and the sign. */
function readStart(): Code[] {
  return [
    v.set("p", I32.add(v.get("at"), int(1))),
    v.add("p", I32.eq(byteAt("p"), int(SPACE))),
    v.add("p", v.tee("isNegative", I32.eq(byteAt("p"), int(MINUS)))),
    v.set("first", v.get("p")),
    v.set("whole", long(0n)),
    v.set("power", int(0)),
  ];
}

/** A zero, or digits. `first` moves over a zero, which is no digit of the number. */
function readWhole(stop: number): Code[] {
  return [
    whenElse(
      I32.eq(byteAt("p"), int(ZERO)),
      [v.add("p", int(1)), v.set("first", v.get("p"))],
      [
        block(
          loop(
            v.set("digit", I32.sub(byteAt("p"), int(ZERO))),
            leaveWhen(1, I32.geU(v.get("digit"), int(10))),
            v.set("whole", I64.add(I64.mul(v.get("whole"), long(10n)), UNARY.extend(v.get("digit")))),
            v.add("p", int(1)),
            leave(0),
          ),
        ),
        // None, or so many that the sum may be wrong.
        leaveWhen(stop + 1, I32.geU(I32.sub(I32.sub(v.get("p"), v.get("first")), int(1)), int(MAX_WHOLE_DIGITS))),
      ],
    ),
  ];
}

/**
 * A point and digits, if there is a point. `first` ends up where the digits would begin if there were no point and no zeros.
 * Stops at "-0", which is an integer and so has no sign.
 */
function readFraction(stop: number, { longs }: PowerTables): Code[] {
  const numDigits = I32.sub(v.get("p"), v.get("first"));
  return [
    whenElse(
      I32.eq(byteAt("p"), int(POINT)),
      [
        v.add("p", int(1)),
        v.set("start", v.get("p")),
        v.add("first", int(1)),
        when(
          UNARY.isZero64(v.get("whole")),
          block(loop(leaveWhen(1, I32.ne(byteAt("p"), int(ZERO))), v.add("p", int(1)), leave(0))),
          v.set("first", v.get("p")),
        ),
        loop(
          v.set("bytes", I64.xor(LOAD.long(v.get("p")), every(0x30n))),
          v.set("mask", I64.and(I64.or(I64.add(v.get("bytes"), every(0x76n)), v.get("bytes")), every(0x80n))),
          when(UNARY.isZero64(v.get("mask")), ...addEight(long(100_000_000n)), v.add("p", int(8)), leave(1)),
        ),
        // The digits in front of the first other byte, as if zeros stood in front of them.
        v.set("mask", I64.and(UNARY.trailingZeros64(v.get("mask")), long(0x38n))),
        v.set("bytes", I64.shl(I64.shl(v.get("bytes"), I64.sub(long(56n), v.get("mask"))), long(8n))),
        ...addEight(LOAD.long(I32.add(int(longs), UNARY.low32(v.get("mask"))))),
        v.add("p", UNARY.low32(I64.shrU(v.get("mask"), long(3n)))),
        v.set("power", I32.sub(v.get("p"), v.get("start"))),
        leaveWhen(stop + 1, I32.geU(I32.sub(v.get("power"), int(1)), int(MAX_POWER))),
        leaveWhen(stop + 1, I32.gtU(numDigits, int(MAX_DIGITS))),
      ],
      [leaveWhen(stop + 1, I32.and(v.get("isNegative"), UNARY.isZero64(v.get("whole"))))],
    ),
  ];
}

/** Appends the eight digits in `bytes`, the first in the lowest, to the number: pairs, then fours, then all. */
function addEight(scale: Code): Code[] {
  const pairs = 0x000000ff000000ffn;
  const low = I64.mul(I64.and(v.get("bytes"), long(pairs)), long(0x000f424000000064n));
  const high = I64.mul(I64.and(I64.shrU(v.get("bytes"), long(16n)), long(pairs)), long(0x0000271000000001n));
  return [
    v.set("bytes", I64.add(I64.mul(v.get("bytes"), long(10n)), I64.shrU(v.get("bytes"), long(8n)))),
    v.set("whole", I64.add(I64.mul(v.get("whole"), scale), I64.shrU(I64.add(low, high), long(32n)))),
  ];
}

/** By a power of ten; stops where the quotient is too near to the middle of two floats. */
function round(stop: number, { doubles }: PowerTables): Code[] {
  const power = LOAD.double(I32.add(int(doubles), I32.shl(v.get("power"), int(3))));
  const below = I64.and(UNARY.bits(v.get("value")), long(0x1fffffffn));
  const fromMiddle = I64.sub(below, long(0x10000000n - DOUBT));
  return [
    v.set("value", F64.div(UNARY.floatOfLong(v.get("whole")), power)),
    // As without sign: what lies below wraps around to something large.
    leaveWhen(stop, I64.ltS(I64.and(fromMiddle, long(0x7fffffffffffffffn)), long(2n * DOUBT))),
    STORE.float(v.get("out"), F64.copySign(v.get("value"), choose(v.get("isNegative"), double(-1), double(1)))),
  ];
}
