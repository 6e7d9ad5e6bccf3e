/**
 * Floats in JSON by the million, every exponent and subnormal ones included: written as JavaScript writes them and read back as the
 * same bits, and texts of many forms read as JavaScript reads them.
 */
import assert from "node:assert/strict";
import { InferRequestReader, JsonWriter, writeTensorData } from "@nereid/wire";
import { createRandom, type Random } from "../support/random.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

export const floatsSoak: Soak = { name: "floats", run };

const FLOATS_PER_ROUND = 20_000;
const MIN_ROUNDS = 50;
const LIMITS = { maxDepth: 8, maxItems: 1_000_000 };
/** The bits of 10^-4 and of 10^8. */
const FIRST_USUAL = 0x38d1b718;
const LAST_USUAL = 0x4cbebc20;

type Form = (random: Random) => string;

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const random = createRandom(seed);
  let rounds = 0;
  for (; rounds < MIN_ROUNDS || performance.now() < deadlineMs; rounds += 1) {
    const floats = randomFloats(random);
    const texts = writeAll(floats);
    assert.deepEqual(texts, Array.from(floats, expectedText));
    assert.deepEqual(bitsOf(readAll(texts)), bitsOf(floats));
    const others = Array.from(floats, () => random.pick(FORMS)(random));
    assert.deepEqual(bitsOf(readAll(others)), bitsOf(Float32Array.from(others, Number)));
  }
  return { rounds, floats: rounds * FLOATS_PER_ROUND, texts: rounds * FLOATS_PER_ROUND };
}

export function writeAll(floats: Float32Array): string[] {
  const writer = new JsonWriter();
  writer.begin();
  for (const pause of writeTensorData(writer, "FP32", new Uint8Array(floats.buffer), floats.length)) void pause;
  return Buffer.from(writer.finish()).toString("latin1").split(",");
}

export function readAll(texts: readonly string[]): Float32Array {
  const head = `{"inputs":[{"name":"X","datatype":"FP32","shape":[${texts.length}],"data":[`;
  const reading = new InferRequestReader(LIMITS).read(Buffer.from(`${head}${texts.join(",")}]}]}`));
  for (;;) {
    const step = reading.next();
    if (step.done !== true) continue;
    const { inputs } = step.value;
    const data = Array.isArray(inputs) ? inputs[0]?.tensor?.data : undefined;
    assert.ok(data !== undefined);
    return new Float32Array(data.slice().buffer);
  }
}

/** Half of them of the size that numbers usually have, half of any. */
function randomFloats(random: Random): Float32Array {
  const bits = Uint32Array.from({ length: FLOATS_PER_ROUND }, () => {
    const sign = random.below(2) * 2 ** 31;
    const isUsual = random.next() < 0.5;
    return sign + (isUsual ? FIRST_USUAL + random.below(LAST_USUAL - FIRST_USUAL) : random.below(0x7f80_0000));
  });
  return new Float32Array(bits.buffer);
}

export function bitsOf(floats: Float32Array): Uint32Array {
  return new Uint32Array(floats.buffer);
}

/** No plus in front of an exponent, and a digit behind the point where there is no exponent. */
export function expectedText(value: number): string {
  const text = Object.is(value, -0) ? "-0" : String(value);
  if (text.includes("e")) return text.replace("+", "");
  return Number.isInteger(value) ? `${text}.0` : text;
}

const FORMS: readonly Form[] = [
  (random) => `${whole(random, 15)}.${digits(random, 24)}`,
  (random) => `-${whole(random, 15)}.${digits(random, 24)}`,
  (random) => `0.${"0".repeat(random.below(30))}${digits(random, 22)}`,
  (random) => `-0.${"0".repeat(random.below(6))}${digits(random, 22)}`,
  (random) => whole(random, 18),
  (random) => String(random.next() * 10 ** (random.below(60) - 40)),
  (random) => (random.next() * 10 ** (random.below(9) - 2)).toFixed(random.below(20)),
  besideTheMiddle,
];

/** A number near the middle of two floats: a few units of a double's last place away, or none. */
function besideTheMiddle(random: Random): string {
  const bits = FIRST_USUAL + random.below(LAST_USUAL - FIRST_USUAL);
  const [one = 0, next = 0] = new Float32Array(Uint32Array.of(bits, bits + 1).buffer);
  return String(((one + next) / 2) * (1 + (random.below(9) - 4) * Number.EPSILON));
}

function whole(random: Random, maxDigits: number): string {
  return `${1 + random.below(9)}${digits(random, maxDigits).slice(1)}`;
}

/** From one on. */
function digits(random: Random, maxDigits: number): string {
  return Array.from({ length: 1 + random.below(maxDigits) }, () => random.below(10)).join("");
}
