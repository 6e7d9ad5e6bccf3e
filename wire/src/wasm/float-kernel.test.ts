import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeUtf8 } from "../utf8.ts";
import { type FloatKernel, floatKernel, floatTextBytes } from "./float-kernel.ts";

const kernel = floatKernel() as FloatKernel;

/** What the kernel takes of a text that begins with a comma, and what it leaves. */
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
  [",1.0000000000000000000]", [], ",1.0000000000000000000]"],
  [",1,1e5]", [1], ",1e5]"],
  [",1,1.5E-3]", [1], ",1.5E-3]"],
  [",-0]", [], ",-0]"],
  [",1.]", [], ",1.]"],
  [",-]", [], ",-]"],
  [",.5]", [], ",.5]"],
  [",+1]", [], ",+1]"],
  [",NaN]", [], ",NaN]"],
  [",01]", [0], "1]"],
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

test("FloatKernel.read() reads every float that JavaScript writes, and all forms of digits between two floats", () => {
  const values = samples(50_000);
  const texts = [...values].map((value, i) => (i % 3 === 0 ? value.toFixed(12) : String(value)));
  let text = texts.map((one) => `,${one}`).join("");
  const expected = texts.map((one) => Math.fround(Number(one)));
  const found: number[] = [];
  while (text !== "" && found.length < expected.length) {
    const { values: taken, rest } = read(`${text}]`);
    found.push(...taken);
    if (rest === "]") break;
    // What it leaves is read as its caller would.
    const [, one = ""] = /^,([^,\]]+)/.exec(rest) ?? [];
    found.push(Math.fround(Number(one)));
    text = rest.slice(one.length + 1, -1);
  }
  assert.deepEqual(found, expected);
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

for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 1e-5, 1e9, 3.4e38, 1e-40]) {
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

function firstDifference(text: string, expected: string): string {
  let at = 0;
  while (at < text.length && text[at] === expected[at]) at++;
  return `${text.slice(at - 30, at + 30)} instead of ${expected.slice(at - 30, at + 30)}`;
}
