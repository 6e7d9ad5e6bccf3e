import assert from "node:assert/strict";
import { test } from "node:test";
import { FastFloat } from "./fast-float.ts";

function read(text: string): number | undefined {
  const float = new FastFloat();
  const bytes = new TextEncoder().encode(` ${text}`);
  if (!float.read(bytes, 1)) return undefined;
  assert.equal(float.end, bytes.length - (/[^0-9]$/.test(text) ? 1 : 0));
  return Math.fround(float.value);
}

test("`read()` gives the float that is nearest to the text", () => {
  for (const text of [
    "0.5",
    "-0.1",
    "3.25,",
    "0.00012345",
    "123456789.125",
    "-1.0",
    "0.100000001490116119",
    "16777217.0",
  ]) {
    assert.equal(read(text), Math.fround(Number(text.replace(",", ""))), text);
  }
});

test("`read()` agrees with the exact way for floats and for doubles between them, or gives up", () => {
  let state = 1;
  const next = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 32;
  };
  let numRead = 0;
  for (let k = 0; k < 20_000; k++) {
    const wide = (next() + next() / 2 ** 32) * 10 ** Math.floor(next() * 12 - 5);
    for (const text of [String(wide), String(Math.fround(wide)), wide.toFixed(9)]) {
      const value = read(text);
      if (value !== undefined) numRead++;
      assert.equal(value ?? Math.fround(Number(text)), Math.fround(Number(text)), text);
    }
  }
  assert.ok(numRead > 30_000);
});

test("`read()` leaves to others what is not as usual", () => {
  for (const text of [
    "1",
    "-",
    ".5",
    "-.5",
    "1.",
    "1.5e3",
    "1.5E3",
    "00.5",
    "0.0",
    "NaN",
    "",
    "1.2345678901234567890",
    "1.x",
  ]) {
    assert.equal(read(text), undefined, text);
  }
});

test("`read()` leaves the middle of two floats to the exact way", () => {
  assert.equal(read("1.00000005960464477"), undefined);
});
