import assert from "node:assert/strict";
import { test } from "node:test";
import { dequantizeRowsRef, type QuantizedType } from "../../../kernels/linear/quantize-rows.ref.ts";
import { fp16ToNumber, numberToFp16 } from "../../core/fp16.ts";
import { type AwqLayer, unpackAwq } from "./awq.ts";
import { type GptqLayer, hasSymmetricZeros, unpackGptq } from "./gptq.ts";
import { blocksFor, dequantizeRows, packRows, type QuantizedMatrix } from "./quantized-matrix.ts";

const INPUTS = 128;
const OUTPUTS = 16;
const GROUP_SIZE = 32;
const GROUPS = INPUTS / GROUP_SIZE;

let state = 7;
function random(bound: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * bound);
}

/** Input of a packer: a value per weight, a zero point and scale per group. */
interface Plain {
  readonly value: (output: number, input: number) => number;
  readonly zero: (output: number, group: number) => number;
  readonly scale: (output: number, group: number) => number;
}

function randomPlain(bits: number, middle?: number): Plain {
  const values = Array.from({ length: OUTPUTS * INPUTS }, () => random(2 ** bits));
  const zeros = Array.from({ length: OUTPUTS * GROUPS }, () => middle ?? 1 + random(2 ** bits - 1));
  const scales = Array.from({ length: OUTPUTS * GROUPS }, () => fp16ToNumber(numberToFp16((1 + random(1000)) / 7000)));
  return {
    value: (output, input) => values[output * INPUTS + input] ?? 0,
    zero: (output, group) => zeros[output * GROUPS + group] ?? 0,
    scale: (output, group) => scales[output * GROUPS + group] ?? 0,
  };
}

function naive(plain: Plain, groupOf: (input: number) => number): Float32Array {
  return Float32Array.from({ length: OUTPUTS * INPUTS }, (_, i) => {
    const [output, input] = [Math.floor(i / INPUTS), i % INPUTS];
    const group = groupOf(input);
    return (plain.value(output, input) - plain.zero(output, group)) * plain.scale(output, group);
  });
}

/** Words of `perWord` values each, the first in the lowest bits. */
function words(values: readonly number[], bits: number): Int32Array {
  const perWord = 32 / bits;
  return Int32Array.from({ length: values.length / perWord }, (_, i) => {
    const bytes = values.slice(i * perWord, (i + 1) * perWord).map((value, n) => BigInt(value) << BigInt(bits * n));
    return Number(
      BigInt.asIntN(
        32,
        bytes.reduce((word, value) => word | value, 0n),
      ),
    );
  });
}

const grid = (rows: number, columns: number, at: (row: number, column: number) => number): number[] =>
  Array.from({ length: rows * columns }, (_, i) => at(Math.floor(i / columns), i % columns));
const run = (input: number): number => Math.floor(input / GROUP_SIZE);

/** Output order of AutoAWQ's packer: its order_map is 0, 2, 4, 6, 1, 3, 5, 7. */
function awqLayer(plain: Plain): AwqLayer {
  const packed = (column: number): number => column - (column % 8) + ([0, 2, 4, 6, 1, 3, 5, 7][column % 8] ?? 0);
  return {
    inputs: INPUTS,
    outputs: OUTPUTS,
    groupSize: GROUP_SIZE,
    qweight: words(
      grid(INPUTS, OUTPUTS, (input, column) => plain.value(packed(column), input)),
      4,
    ),
    qzeros: words(
      grid(GROUPS, OUTPUTS, (group, column) => plain.zero(packed(column), group)),
      4,
    ),
    scales: Float32Array.from(grid(GROUPS, OUTPUTS, (group, output) => plain.scale(output, group))),
  };
}

function gptqLayer(plain: Plain, bits: 4 | 8, version: 1 | 2, groupOf?: Int32Array): GptqLayer {
  const perWord = 32 / bits;
  const inOrder = Array.from({ length: (INPUTS / perWord) * OUTPUTS }, (_, i) => {
    const [row, output] = [Math.floor(i / OUTPUTS), i % OUTPUTS];
    return Array.from({ length: perWord }, (_, n) => plain.value(output, row * perWord + n));
  });
  const stored = version === 1 ? 1 : 0;
  return {
    inputs: INPUTS,
    outputs: OUTPUTS,
    bits,
    groupSize: GROUP_SIZE,
    version,
    qweight: words(inOrder.flat(), bits),
    qzeros: words(
      grid(GROUPS, OUTPUTS, (group, output) => plain.zero(output, group) - stored),
      bits,
    ),
    scales: Float32Array.from(grid(GROUPS, OUTPUTS, (group, output) => plain.scale(output, group))),
    groupOf,
  };
}

test("unpackAwq() gives the weights of the naive reference", () => {
  const plain = randomPlain(4);
  const matrix = unpackAwq(awqLayer(plain));
  assert.deepEqual(dequantizeRows(matrix, 0, OUTPUTS), naive(plain, run));
});

test("unpackAwq() undoes a word written out by hand", () => {
  // Outputs 0 to 7 have the values 0 to 7: nibbles hold 0, 2, 4, 6, 1, 3, 5, 7 from the lowest on.
  const word = Int32Array.of(0x7531_6420);
  const layer = { inputs: 1, outputs: 8, groupSize: 1, qweight: word, qzeros: Int32Array.of(0) };
  const matrix = unpackAwq({ ...layer, scales: new Float32Array(8).fill(1) });
  assert.deepEqual([...matrix.values], [0, 1, 2, 3, 4, 5, 6, 7]);
});

for (const bits of [4, 8] as const) {
  for (const version of [1, 2] as const) {
    test(`unpackGptq() gives the weights of the naive reference: ${bits} bits, version ${version}`, () => {
      const plain = randomPlain(bits);
      const matrix = unpackGptq(gptqLayer(plain, bits, version));
      assert.deepEqual(dequantizeRows(matrix, 0, OUTPUTS), naive(plain, run));
      assert.deepEqual(dequantizeRows(matrix, 5, 3), naive(plain, run).slice(5 * INPUTS, 8 * INPUTS));
    });

    test(`unpackGptq() follows g_idx: ${bits} bits, version ${version}`, () => {
      const plain = randomPlain(bits);
      const groupOf = Int32Array.from({ length: INPUTS }, (_, input) => (input * 5 + 1) % GROUPS);
      const matrix = unpackGptq(gptqLayer(plain, bits, version, groupOf));
      assert.deepEqual(
        dequantizeRows(matrix, 0, OUTPUTS),
        naive(plain, (input) => groupOf[input] ?? 0),
      );
      assert.equal(blocksFor(matrix, true), undefined);
    });
  }
}

test("unpackGptq() takes a g_idx of runs for none, and refuses groups that are not there", () => {
  const plain = randomPlain(4);
  const matrix = unpackGptq(
    gptqLayer(
      plain,
      4,
      1,
      Int32Array.from({ length: INPUTS }, (_, input) => run(input)),
    ),
  );
  assert.equal(matrix.groupOf, undefined);
  for (const group of [-1, GROUPS]) {
    const layer = gptqLayer(plain, 4, 1, new Int32Array(INPUTS).fill(group));
    assert.throws(() => unpackGptq(layer), new RegExp(`g_idx: expected groups from 0 to 3, got ${group}`));
  }
});

test("unpackGptq() adds back what the first version took from whole words", () => {
  // Zeros 0, 3, then 8s: subtracting one from each borrows from the second.
  const zeros = words([0, 3, 8, 8, 8, 8, 8, 8], 4);
  const stored = Int32Array.of((zeros[0] ?? 0) - 0x1111_1111);
  const layer = { ...gptqLayer(randomPlain(4), 4, 1), inputs: 32, outputs: 8, qzeros: stored };
  const { zeros: actual } = unpackGptq({ ...layer, qweight: new Int32Array(32), scales: new Float32Array(8) });
  assert.deepEqual([...actual], [0, 3, 8, 8, 8, 8, 8, 8]);
});

test("hasSymmetricZeros() tells symmetric layers by their zeros", () => {
  for (const version of [1, 2] as const) {
    assert.equal(hasSymmetricZeros(gptqLayer(randomPlain(4, 8), 4, version)), true);
    assert.equal(hasSymmetricZeros(gptqLayer(randomPlain(8, 128), 8, version)), true);
    assert.equal(hasSymmetricZeros(gptqLayer(randomPlain(4, 7), 4, version)), false);
    assert.equal(hasSymmetricZeros(gptqLayer(randomPlain(8), 8, version)), false);
  }
});

const TYPES = { Q4_0: "q4_0", Q4_1: "q4_1", Q8_0: "q8_0" } as const satisfies Record<string, QuantizedType>;

const EXACT: readonly (readonly [bits: 4 | 8, middle: number, blocks: "Q4_0" | "Q8_0"])[] = [
  [4, 8, "Q4_0"],
  [8, 128, "Q8_0"],
];
for (const [bits, middle, blocks] of EXACT) {
  test(`packRows() keeps symmetric ${bits} bits as they are in ${blocks}`, () => {
    const plain = randomPlain(bits, middle);
    const matrix = unpackGptq(gptqLayer(plain, bits, 2));
    assert.equal(blocksFor(matrix, true), blocks);
    const kept = dequantizeRowsRef(TYPES[blocks], packRows(matrix, blocks, 0, OUTPUTS));
    assert.deepEqual(
      kept,
      naive(plain, run).map((value) => value + 0),
    );
  });
}

test("packRows() keeps AWQ in Q4_1 but for the rounding of zero times scale to a half", () => {
  const plain = randomPlain(4);
  const matrix = unpackAwq(awqLayer(plain));
  assert.equal(blocksFor(matrix, false), "Q4_1");
  const kept = dequantizeRowsRef("q4_1", packRows(matrix, "Q4_1", 0, OUTPUTS));
  const wanted = naive(plain, run);
  const excess = kept.map((value, i) => {
    const [output, group] = [Math.floor(i / INPUTS), run(i % INPUTS)];
    const offset = plain.zero(output, group) * plain.scale(output, group);
    // Half a unit in the last place of FP16, plus FP32 rounding.
    return Math.abs(value - (wanted[i] ?? Number.NaN)) - offset * (2 ** -11 + 2 ** -20);
  });
  assert.ok(Math.max(...excess) <= 0, `a weight is off by ${Math.max(...excess)} more`);
  assert.deepEqual(packRows(matrix, "Q4_1", 3, 2), packRows(matrix, "Q4_1", 0, OUTPUTS).slice(3 * 80, 5 * 80));
});

const UNFIT: readonly (readonly [what: string, changes: Partial<QuantizedMatrix>, isSymmetric: boolean])[] = [
  ["groups that cut blocks", { groupSize: 48 }, true],
  ["inputs that are no whole blocks", { inputs: 48 }, true],
  ["groups in no order", { groupOf: new Int32Array(INPUTS) }, true],
  ["8 bits with zeros off the middle", { bits: 8 }, false],
];
for (const [what, changes, isSymmetric] of UNFIT) {
  test(`blocksFor() finds none for ${what}`, () => {
    const fitting = { bits: 4, inputs: INPUTS, groupSize: GROUP_SIZE, groupOf: undefined } as const;
    assert.equal(blocksFor({ ...fitting, ...changes }, isSymmetric), undefined);
  });
}

test("packRows() refuses a scale that no half holds", () => {
  const matrix = unpackAwq(awqLayer({ ...randomPlain(4), scale: () => 70_000 }));
  assert.throws(() => packRows(matrix, "Q4_1", 0, 1), /a scale of 70000 is outside half precision/);
});
