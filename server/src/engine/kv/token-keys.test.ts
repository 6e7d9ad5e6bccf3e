import assert from "node:assert/strict";
import { test } from "node:test";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { tokenKeys } from "./token-keys.ts";

const VOCAB = 64;

/** The keys of each token, as one text each. */
function keysOf(changes: Partial<GenerateRequest>): (string | undefined)[] {
  const promptTokens = Int32Array.of(1, 64, 65, 2);
  const keys = tokenKeys({ ...NEUTRAL_REQUEST, promptTokens, ...changes }, VOCAB);
  return [0, 1, 2, 3].map((i) => keys?.subarray(2 * i, 2 * i + 2).join());
}

function table(...values: number[]): Partial<GenerateRequest> {
  return { promptTable: { numRows: 2, values: Float32Array.from(values) } };
}

test("tokenKeys() is undefined for plain text", () => {
  assert.deepEqual(keysOf({}), [undefined, undefined, undefined, undefined]);
});

test("tokenKeys() tells rows of tables by their content, and leaves text alone", () => {
  const [text, first, second, after] = keysOf(table(1, 2, 3, 4));
  assert.deepEqual([text, after], ["0,0", "0,0"]);
  assert.notEqual(first, second);
  assert.deepEqual(keysOf(table(1, 2, 3, 4)), [text, first, second, after]);
  const other = keysOf(table(1, 2, 3, 5));
  assert.equal(other[1], first);
  assert.notEqual(other[2], second);
});

test("tokenKeys() tells tokens apart that do not stand right behind what is before them", () => {
  const positions = (...values: number[]): Partial<GenerateRequest> => ({ promptPositions: Int32Array.from(values) });
  assert.deepEqual(keysOf(positions(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)), ["0,0", "0,0", "0,0", "0,0"]);
  const [first, row, column, after] = keysOf(positions(0, 1, 1, 3, 0, 1, 1, 3, 0, 1, 2, 3));
  assert.deepEqual([first, row, after], ["0,0", "0,0", "0,0"]);
  const turned = keysOf(positions(0, 1, 1, 3, 0, 1, 2, 3, 0, 1, 1, 3));
  assert.notEqual(column, "0,0");
  assert.notEqual(column, turned[2]);
  const ahead = keysOf(positions(0, 1, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2));
  assert.notEqual(ahead[3], after);
});

test("tokenKeys() takes the numbers of the request, all 64 bits of them, on top of the content", () => {
  const tokenSalts = BigUint64Array.of(0n, 7n, 2n ** 40n + 7n, 2n ** 64n - 1n, 99n); // more than tokens: padding
  assert.deepEqual(keysOf({ tokenSalts }), ["0,0", "7,0", "7,256", "-1,-1"]);
  const both = keysOf({ tokenSalts, ...table(1, 2, 3, 4) });
  assert.deepEqual([both[0], both[3]], ["0,0", "-1,-1"]);
  const content = keysOf(table(1, 2, 3, 4));
  assert.notEqual(both[1], content[1]);
  assert.notEqual(both[1], "7,0");
});
