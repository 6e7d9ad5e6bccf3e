/** Proves what the kernels of wire/assembly rely on: exact scaling for every exponent, and exact divisions by multiplication. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FLOAT_KERNELS } from "../gen/float-kernels.ts";
import { FloatKernel, SCRATCH_BYTES } from "./float-kernel.ts";
import { engine, FIRST_FREE_BYTE, floatMemory } from "./float-memory.ts";

/** Layout of wire/assembly/float-tables.ts. */
const SCALES = 4096;
const SCALE_BYTES = 64;
const FACTOR = 0;
const HALF_ULP = 8;
const LAST_BELOW = 36;
const TENS = 40;
const UNSUPPORTED_TENS: number = 1024 + 12 * 128;
const MANTISSA_BIAS = 150;

interface DecimalScale {
  /** Bits of the least and the largest float that use it. */
  readonly first: number;
  readonly last: number;
  readonly at: number;
}

function tables(): DataView {
  const memory = floatMemory(FIRST_FREE_BYTE + SCRATCH_BYTES, false);
  assert.ok(engine !== undefined && memory !== undefined);
  const { exports } = new engine.Instance(new engine.Module(FLOAT_KERNELS), { env: { memory } });
  assert.ok(new FloatKernel(exports, memory.buffer, FIRST_FREE_BYTE));
  return new DataView(memory.buffer);
}

/** Scales of positive normal floats that the kernel writes. */
function supportedScales(view: DataView): DecimalScale[] {
  const scales: DecimalScale[] = [];
  for (let exponent = 1; exponent < 255; exponent++) {
    const below = SCALES + 2 * exponent * SCALE_BYTES;
    const first = exponent << 23;
    const last = first + 0x7f_ffff;
    const lastBelow = Math.min(view.getInt32(below + LAST_BELOW, true), last);
    scales.push({ at: below, first, last: lastBelow });
    if (lastBelow < last) scales.push({ at: below + SCALE_BYTES, first: lastBelow + 1, last });
  }
  return scales.filter(({ at, first, last }) => first <= last && view.getInt32(at + TENS, true) !== UNSUPPORTED_TENS);
}

function floatOf(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0] ?? 0;
}

test("the tables end at FIRST_FREE_BYTE", () => {
  const bytes = new Uint8Array(tables().buffer);
  assert.ok(bytes.subarray(FIRST_FREE_BYTE - SCALE_BYTES, FIRST_FREE_BYTE).some((byte) => byte !== 0));
  assert.ok(bytes.subarray(FIRST_FREE_BYTE).every((byte) => byte === 0));
});

test("the scales cover all floats from 10^-4 to below 10^8, without gaps", () => {
  const scales = supportedScales(tables());
  assert.ok(floatOf(scales[0]?.first ?? 0) >= 1e-4 && floatOf((scales[0]?.first ?? 0) - 1) < 1e-4);
  const last = scales.at(-1)?.last ?? 0;
  assert.ok(floatOf(last) < 1e8 && floatOf(last + 1) >= 1e8);
  for (const [i, { first }] of scales.slice(1).entries()) assert.equal(first, (scales[i]?.last ?? 0) + 1);
});

test("each factor is a power of ten and two exactly, and gives nine digits with 32 bits behind them in 64 bits", () => {
  const view = tables();
  for (const { at, first, last } of supportedScales(view)) {
    const factor = view.getBigUint64(at + FACTOR, true);
    const s = BigInt((first >>> 23) - MANTISSA_BIAS);
    const d = BigInt(Math.floor(Math.log10(floatOf(last))));
    // factor = 10^(8-d) * 2^(s+32), multiplied out so that both sides are integers.
    assert.equal(factor << 64n, (10n ** (8n - d)) << (96n + s), `${at}`);
    const products = [first, last].map((bits) => factor * BigInt((bits & 0x7f_ffff) | 0x80_0000));
    assert.ok((products[0] ?? 0n) >= (10n ** 8n) << 32n, `${at}`);
    assert.ok((products[1] ?? 0n) < (10n ** 9n) << 32n && (products[1] ?? 0n) < 1n << 64n, `${at}`);
    // Half an ulp of the double, 2^(s+23-53), in units of 10^(d-16) with 32 fraction bits: rounded down, below 12 units.
    const halfUlp = view.getBigUint64(at + HALF_ULP, true);
    assert.equal(halfUlp, ((10n ** (16n - d)) << (64n + s - 30n + 32n)) >> 64n, `${at}`);
    assert.ok(halfUlp < 12n << 32n);
  }
});

/** A quotient by multiplication is monotonic, so it is right everywhere if it is right on both sides of each multiple. */
const DIVISIONS = [
  { divisor: 10, limit: 100, factor: 103n, shift: 10n },
  { divisor: 100, limit: 10_000, factor: 5243n, shift: 19n },
  { divisor: 10_000, limit: 100_000_000, factor: 109_951_163n, shift: 40n },
  { divisor: 100_000_000, limit: 1_000_000_000, factor: 1_441_151_881n, shift: 57n },
];
for (const { divisor, limit, factor, shift } of DIVISIONS) {
  test(`n * ${factor} >> ${shift} is floor(n / ${divisor}) for all n below ${limit}`, () => {
    for (let multiple = divisor; multiple <= limit; multiple += divisor) {
      assert.equal((BigInt(multiple - 1) * factor) >> shift, BigInt(multiple / divisor - 1));
      if (multiple < limit) assert.equal((BigInt(multiple) * factor) >> shift, BigInt(multiple / divisor));
    }
  });
}
