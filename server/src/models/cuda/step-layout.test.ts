import assert from "node:assert/strict";
import { test } from "node:test";
import { layOutStep, packStep } from "./step-layout.ts";

test("packStep() pads with rows that store nothing and see nothing", () => {
  const sizes = { numTokens: 4, numSequences: 4, maxBlocks: 2, numLogitRows: 0, numChoices: 0 };
  const layout = layOutStep(sizes);
  const into = new Int32Array(layout.length).fill(77);
  const sequences = [
    { queryStart: 0, contextLength: 17, blockTable: Int32Array.of(5, 6, 7) },
    { queryStart: 1, contextLength: 3, blockTable: Int32Array.of(9) },
  ];
  const step = {
    tokenIds: Int32Array.of(11, 12),
    positions: Int32Array.of(16, 2),
    slots: Int32Array.of(96, 146),
    logitRows: Int32Array.of(),
    sequences,
  };
  packStep(step, sizes, layout, 16, into);
  const part = (at: number, count: number): number[] => [...into.subarray(at, at + count)];
  assert.deepEqual(part(layout.tokenIds, 4), [11, 12, 0, 0]);
  assert.deepEqual(part(layout.slots, 4), [96, 146, -1, -1]);
  assert.deepEqual(part(layout.queryStart, 5), [0, 1, 2, 3, 4]);
  assert.deepEqual(part(layout.contextLengths, 4), [17, 3, 0, 0]);
  assert.deepEqual(part(layout.blockTable, 3), [5, 6, 9]);
});

test("packStep() leaves no block that is gone", () => {
  const sizes = { numTokens: 1, numSequences: 1, maxBlocks: 3, numLogitRows: 1, numChoices: 0 };
  const layout = layOutStep(sizes);
  const into = new Int32Array(layout.length);
  const one = Int32Array.of(0);
  const sequences = [{ queryStart: 0, contextLength: 48, blockTable: Int32Array.of(-1, -1, 4) }];
  packStep({ tokenIds: one, positions: one, slots: one, logitRows: one, sequences }, sizes, layout, 16, into);
  assert.deepEqual([...into.subarray(layout.blockTable, layout.blockTable + 3)], [0, 0, 4]);
});

test("layOutStep() begins each part at a multiple of 16 bytes", () => {
  const { length, ...parts } = layOutStep({
    numTokens: 5,
    numSequences: 3,
    maxBlocks: 7,
    numLogitRows: 1,
    numChoices: 0,
  });
  for (const at of Object.values(parts)) assert.equal(at % 4, 0);
  assert.equal(length >= 5 * 3 + 4 + 3 + 1 + 21, true);
});

test("packStep() names the row of a token that the step before chooses", () => {
  const sizes = { numTokens: 4, numSequences: 4, maxBlocks: 1, numLogitRows: 0, numChoices: 0 };
  const layout = layOutStep(sizes);
  const into = new Int32Array(layout.length);
  const values = new Int32Array(3);
  const sequences = [0, 1, 2].map((queryStart) => ({ queryStart, contextLength: 1, blockTable: Int32Array.of(0) }));
  const step = { tokenIds: Int32Array.of(7, 0, 0), positions: values, slots: values, logitRows: values, sequences };
  packStep({ ...step, carried: Int32Array.of(-1, 5, 0) }, sizes, layout, 16, into);
  assert.deepEqual([...into.subarray(layout.tokenIds, layout.tokenIds + 4)], [7, -7, -2, 0]);
});

test("packStep() gives tokens without axes their position three times, and leaves none to rows of padding", () => {
  const sizes = { numTokens: 4, hasAxes: true, numSequences: 4, maxBlocks: 1, numLogitRows: 0, numChoices: 0 };
  const layout = layOutStep(sizes);
  const values = Int32Array.of(8, 9);
  const sequences = [0, 1].map((queryStart) => ({ queryStart, contextLength: 1, blockTable: Int32Array.of(0) }));
  const step = { tokenIds: values, positions: values, slots: values, logitRows: values.subarray(2), sequences };
  const axesOf = (axes: { readonly axes?: Int32Array }): number[] => {
    const into = new Int32Array(layout.length).fill(77);
    packStep({ ...step, ...axes }, sizes, layout, 16, into);
    return [...into.subarray(layout.axes, layout.axes + 12)];
  };
  assert.deepEqual(axesOf({}), [8, 9, 0, 0, 8, 9, 0, 0, 8, 9, 0, 0]);
  assert.deepEqual(axesOf({ axes: Int32Array.of(1, 2, 3, 4, 5, 6) }), [1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0]);
});
