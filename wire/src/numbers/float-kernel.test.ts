import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeUtf8 } from "../utf8.ts";
import { type FloatKernel, floatKernel, floatTextBytes } from "./float-kernel.ts";

const kernel = floatKernel() as FloatKernel;

/** The floats that the kernel reads of a text that begins with a comma, and the rest. */
function read(text: string, room = 100_000): { values: number[]; rest: string } {
  const target = new Float32Array(room);
  const bytes = encodeUtf8(text);
  const count = kernel.read(bytes, 0, target, 0, room);
  return { values: [...target.subarray(0, count)], rest: text.slice(kernel.end) };
}

/** As JSON, and what was left. */
function write(values: readonly number[]): { text: string; count: number } {
  const view = new DataView(Float32Array.from(values).buffer);
  const target = new Uint8Array(floatTextBytes(values.length));
  const count = kernel.write(view, 0, values.length, target, 0);
  return { text: new TextDecoder().decode(target.subarray(0, kernel.end)), count };
}

/** Floats of every size that the usual form has, the same in every run. */
function samples(count: number): Float32Array {
  let state = 99;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return Float32Array.from(
    { length: count },
    () => (next() < 0.5 ? -1 : 1) * next() * 10 ** Math.floor(next() * 12 - 4),
  );
}

const READABLE: readonly (readonly [text: string, values: readonly number[], rest: string])[] = [
  [",1.5,2.25]", [1.5, 2.25], "]"],
  [", -0.5, 3]", [-0.5, 3], "]"],
  [",0,12,-7,123456789012345]", [0, 12, -7, Math.fround(123456789012345)], "]"],
  [",0.0,-0.0]", [0, -0], "]"],
  [",0.1,0.10000000149011612,0.1]", [Math.fround(0.1), Math.fround(0.1), Math.fround(0.1)], "]"],
  [",0.0001234567890123456]", [Math.fround(0.0001234567890123456)], "]"],
  [",1.0000000000000000000]", [1], "]"],
  [",0.00001234567890123456789]", [Math.fround(0.00001234567890123457)], "]"],
  [",0.0000000000000000000012345]", [Math.fround(1.2345e-21)], "]"],
  [",123456789012345.1234567890123456789]", [], ",123456789012345.1234567890123456789]"],
  [",1,1e5]", [1], ",1e5]"],
  [",1,1.5E-3]", [1], ",1.5E-3]"],
  [",-0]", [], ",-0]"],
  [",1.]", [], ",1.]"],
  [",-]", [], ",-]"],
  [",.5]", [], ",.5]"],
  [",+1]", [], ",+1]"],
  [",NaN]", [], ",NaN]"],
  [",01]", [], ",01]"],
  [",[1.5]]", [], ",[1.5]]"],
  [",  1.5]", [], ",  1.5]"],
  [", 1.5 ,2.5]", [1.5], " ,2.5]"],
  [",1234567890123456.5]", [], ",1234567890123456.5]"],
  ["]", [], "]"],
  // The middle of two floats, and next to it: not for a quotient to decide.
  [",16777217.0]", [], ",16777217.0]"],
  [",1.00000005960464477]", [], ",1.00000005960464477]"],
];
for (const [text, values, rest] of READABLE) {
  test(`FloatKernel.read() takes ${values.length} of "${text}"`, () => {
    const found = read(text);
    assert.deepEqual(found.values, values);
    assert.equal(found.rest, rest);
  });
}

/** The floats that the kernel reads; the rest is read as its caller would. */
function readAll(texts: readonly string[]): Float32Array {
  const bytes = encodeUtf8(`${texts.map((one) => `,${one}`).join("")}]`);
  const found = new Float32Array(texts.length);
  let at = 0;
  for (let count = 0; count < texts.length; ) {
    count += kernel.read(bytes, at, found, count, texts.length - count);
    at = kernel.end;
    if (count === texts.length) break;
    const one = texts[count] ?? "";
    found[count++] = Number(one);
    at += one.length + 1;
  }
  return found;
}

test("FloatKernel.read() reads every float that JavaScript writes, and all forms of digits between two floats", () => {
  const texts = [...samples(50_000)].map((value, i) => (i % 3 === 0 ? value.toFixed(i % 20) : String(value)));
  const usual = texts.filter((text) => text !== "-0");
  const expected = Float32Array.from(usual, Number);
  assert.deepEqual(readAll(usual), expected);
});

test("FloatKernel.read() reads numbers with every count of digits before and behind the point", () => {
  const digits = "98765432101234567890123";
  const texts: string[] = [];
  for (let before = 1; before < 18; before++) {
    for (let behind = 0; behind < 24; behind++) {
      for (const zeros of ["", "0", "000"]) {
        const whole = digits.slice(0, before);
        const point = behind === 0 ? "" : `.${zeros}${digits.slice(0, behind)}`;
        texts.push(`${whole}${point}`, `-${whole}${point}`, `0${point === "" ? ".5" : point}`);
      }
    }
  }
  assert.deepEqual(readAll(texts), Float32Array.from(texts, Number));
});

test("FloatKernel.read() decides nothing near the middle of two floats, and reads what lies beside it", () => {
  const values = samples(5000);
  const bits = new Uint32Array(Float32Array.from(values, (value) => Math.abs(value) + 1e-3).buffer);
  const next = new Float32Array(bits.map((one) => one + 1).buffer);
  const middles = [...new Float32Array(bits.buffer)].map((value, i) => (value + (next[i] ?? 0)) / 2);
  const texts = middles.flatMap((middle) =>
    [-40, -3, -1, 0, 1, 3, 40].map((away) => (middle * (1 + away * Number.EPSILON)).toFixed(12)),
  );
  assert.deepEqual(readAll(texts), Float32Array.from(texts, Number));
});

test("FloatKernel.read() stops when there is no room, and goes on from there", () => {
  const text = `${",0.5".repeat(1000)}]`;
  const target = new Float32Array(1000);
  const bytes = encodeUtf8(text);
  assert.equal(kernel.read(bytes, 0, target, 0, 700), 700);
  assert.equal(kernel.end, 2800);
  assert.equal(kernel.read(bytes, kernel.end, target, 700, 300), 300);
  assert.ok(target.every((value) => value === 0.5));
});

const WRITABLE: readonly (readonly [value: number, text: string])[] = [
  [0, "0.0"],
  [-0, "-0.0"],
  [1, "1.0"],
  [-12, "-12.0"],
  [99_999_992, "99999992.0"],
  [0.1, "0.10000000149011612"],
  [0.5, "0.5"],
  [-1.5, "-1.5"],
  [2.7, "2.700000047683716"],
  [123.456, "123.45600128173828"],
  [16_777_215, "16777215.0"],
  [-67_108_864, "-67108864.0"],
  [-120, "-120.0"],
  [8_388_607.5, "8388607.5"],
  [0.001, "0.0010000000474974513"],
  [0.0001, "0.00009999999747378752"],
  [0.99999994, "0.9999999403953552"],
  [9.999999, "9.999999046325684"],
];
for (const [value, text] of WRITABLE) {
  test(`FloatKernel.write() writes ${value} as ${text}`, () => {
    const expected =
      Math.abs(Math.fround(value)) >= 1e-4 || value === 0 ? { text: `,${text}`, count: 1 } : { text: "", count: 0 };
    assert.deepEqual(write([value]), expected);
  });
}

for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 1e-5, 1e8, 1e9, 3.4e38, 1e-40]) {
  test(`FloatKernel.write() leaves ${value} to others`, () => {
    assert.deepEqual(write([0.5, value, 0.5]), { text: ",0.5", count: 1 });
  });
}

test("FloatKernel.write() writes what JavaScript writes, for floats of every usual size", () => {
  const values = [...samples(200_000)].filter((value) => Math.abs(value) >= 1e-4 && Math.abs(value) < 2 ** 24);
  const { text, count } = write(values);
  assert.equal(count, values.length);
  const expected = values.map((value) => `,${value}${Number.isInteger(value) ? ".0" : ""}`).join("");
  assert.equal(text === expected, true, firstDifference(text, expected));
});

test("FloatKernel.write() drops digits as JavaScript does where two numbers with fewer are equally near", () => {
  // Numbers of 17 and 18 digits that end with five.
  const values = [2 ** 17, 2 ** 18].flatMap((range) =>
    Array.from({ length: 20_000 }, (_, i) => (range - 1 - 2 * i) / range),
  );
  const { text, count } = write(values);
  assert.equal(count, values.length);
  const expected = values.map((value) => `,${value}`).join("");
  assert.equal(text === expected, true, firstDifference(text, expected));
});

test("FloatKernel.write() writes what JavaScript writes, around powers of two and ten", () => {
  const bits: number[] = [];
  for (const power of [...powers(2, -13, 23), ...powers(10, -4, 7)]) {
    const [at = 0] = new Uint32Array(Float32Array.of(power).buffer);
    for (let away = -40; away < 40; away++) bits.push(at + away);
  }
  const values = [...new Float32Array(Uint32Array.from(bits).buffer)].filter((value) => value >= 1e-4);
  const { text, count } = write(values);
  assert.equal(count, values.length);
  const expected = values.map((value) => `,${value}${Number.isInteger(value) ? ".0" : ""}`).join("");
  assert.equal(text === expected, true, firstDifference(text, expected));
});

function powers(base: number, from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => base ** (from + i));
}

function firstDifference(text: string, expected: string): string {
  let at = 0;
  while (at < text.length && text[at] === expected[at]) at++;
  return `${text.slice(at - 30, at + 30)} instead of ${expected.slice(at - 30, at + 30)}`;
}
