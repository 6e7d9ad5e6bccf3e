import assert from "node:assert/strict";
import { test } from "node:test";
import { fp16ToNumber } from "../../src/core/fp16.ts";
import { randomFloats } from "../testing/run-op.ts";
import { type Int4Tensors, readInt4 } from "./int4-checkpoint.ts";
import { planInt4 } from "./int4-linear.cuda.ts";
import { type Int4Matrix, type PackedInt4, packInt4 } from "./pack-int4.ts";
import { dequantizeInt4, quantizeInt4 } from "./quantize-int4.ts";

/** Reads packed weights as the kernel does: lane by lane, register by register. */
function unpack(packed: PackedInt4, outputs: number, inputs: number, groupSize: number): Float32Array {
  const out = new Float32Array(outputs * inputs);
  for (let at = 0; at < packed.codes.length; at++) {
    const step = at % 4;
    const lane = (at >> 2) % 32;
    const tile = (at >> 7) % 4;
    const chunk = (at >> 9) % (inputs / 64);
    const block = Math.floor((at >> 9) / (inputs / 64));
    const [g, t] = [lane >> 2, lane & 3];
    for (let register = 0; register < 4; register++) {
      for (let half = 0; half < 2; half++) {
        const code = ((packed.codes[at] ?? 0) >>> (4 * (register + 4 * half))) & 15;
        const output = block * 64 + tile * 16 + g + (register & 1) * 8;
        const input = chunk * 64 + step * 16 + 2 * t + (register >> 1) * 8 + half;
        const row = (Math.floor(input / groupSize) * (outputs / 64) + block) * 8 + g;
        const place = 2 * tile + (register & 1);
        const zero = packed.zeros === undefined ? 8 : ((packed.zeros[row] ?? 0) >>> (4 * place)) & 15;
        out[output * inputs + input] = (code - zero) * fp16ToNumber(packed.scales[row * 8 + place] ?? 0);
      }
    }
  }
  return out;
}

test("packInt4() keeps every weight where the kernel looks for it", () => {
  const cases: [outputs: number, inputs: number, groupSize: number, hasZeros: boolean][] = [
    [64, 64, 64, false],
    [128, 256, 128, true],
    [192, 128, 32, true],
    [64, 192, 64, false],
  ];
  for (const [outputs, inputs, groupSize, hasZeros] of cases) {
    const matrix = quantizeInt4(randomFloats(outputs * inputs, 5), inputs, { groupSize, hasZeros });
    assert.deepEqual(unpack(packInt4(matrix), outputs, inputs, groupSize), dequantizeInt4(matrix));
  }
});

test("quantizeInt4() stays within half a step of every weight", () => {
  for (const hasZeros of [true, false]) {
    const weight = randomFloats(64 * 128, 9);
    const matrix = quantizeInt4(weight, 128, { groupSize: 64, hasZeros });
    const back = dequantizeInt4(matrix);
    const worst = Math.max(...weight.map((value, i) => Math.abs(value - (back[i] ?? 0))));
    // A zero that is rounded shifts the ends of the range by half a step more.
    assert.ok(worst <= Math.max(...matrix.scales) * (hasZeros ? 1.01 : 0.51), `${hasZeros}: ${worst}`);
  }
});

test("packInt4() names the shape when the kernel does not take it", () => {
  const matrix: Int4Matrix = {
    outputs: 65,
    inputs: 64,
    groupSize: 64,
    codes: new Uint8Array(0),
    scales: new Float32Array(0),
  };
  assert.throws(() => packInt4(matrix), /got 65 x 64 in groups of 64/);
  assert.throws(() => packInt4({ ...matrix, outputs: 64 }), /expected 2048 codes, got 0/);
});

test("readInt4() reads a GPTQ matrix and an AWQ matrix of the same weights as equal", () => {
  const [outputs, inputs, groupSize] = [64, 128, 64];
  const matrix = quantizeInt4(randomFloats(outputs * inputs, 3), inputs, { groupSize, hasZeros: true });
  for (const format of ["gptq", "awq"] as const) {
    const read = readInt4(storedAs(format, matrix));
    assert.deepEqual(dequantizeInt4(read), dequantizeInt4(matrix), format);
  }
});

const H200 = { numSms: 132, arch: "sm_90a" };

test("planInt4() fills the device without reading weights twice for few rows", () => {
  for (const [outputs, inputs] of [
    [4096, 4096],
    [6144, 4096],
    [28672, 4096],
    [4096, 14336],
  ] as const) {
    const plan = planInt4(H200, 1, outputs, inputs);
    assert.equal(plan.numRowBlocks, 1);
    assert.ok((outputs / 64) * plan.numSplits >= 180, `${outputs} x ${inputs}: ${plan.numSplits} splits`);
  }
  assert.deepEqual(planInt4(H200, 64, 4096, 4096).numRowBlocks, 2);
});

const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7];

function storedAs(
  format: "gptq" | "awq",
  { outputs, inputs, groupSize, codes, scales, zeros }: Int4Matrix,
): Int4Tensors {
  const numGroups = inputs / groupSize;
  const codeAt = (output: number, input: number): number =>
    ((codes[(output * inputs + input) >> 1] ?? 0) >> (4 * (input % 2))) & 15;
  const order = format === "awq" ? AWQ_ORDER : [0, 1, 2, 3, 4, 5, 6, 7];
  const word = (nibbleAt: (place: number) => number): number =>
    order.reduce((bits, _, place) => (bits | (nibbleAt(place) << (4 * place))) >>> 0, 0);
  const numOut = outputs / 8;
  const qweight =
    format === "gptq"
      ? Uint32Array.from({ length: (inputs / 8) * outputs }, (_, i) =>
          word((place) => codeAt(i % outputs, Math.floor(i / outputs) * 8 + place)),
        )
      : Uint32Array.from({ length: inputs * numOut }, (_, i) =>
          word((place) => codeAt((i % numOut) * 8 + (order[place] ?? 0), Math.floor(i / numOut))),
        );
  const zeroAt = (output: number, group: number): number => zeros?.[output * numGroups + group] ?? 8;
  const offset = format === "gptq" ? 15 : 0; // less one, in four bits
  const qzeros = Uint32Array.from({ length: numGroups * numOut }, (_, i) =>
    word((place) => (zeroAt((i % numOut) * 8 + (order[place] ?? 0), Math.floor(i / numOut)) + offset) & 15),
  );
  const halves = packInt4({ outputs, inputs, groupSize, codes, scales, zeros }).scales;
  const stored = new Uint16Array(numGroups * outputs);
  for (let output = 0; output < outputs; output++) {
    const place = (output % 8) * 8 + 2 * Math.floor((output % 64) / 16) + Math.floor((output % 16) / 8);
    for (let group = 0; group < numGroups; group++) {
      stored[group * outputs + output] = halves[group * outputs + Math.floor(output / 64) * 64 + place] ?? 0;
    }
  }
  return { format, outputs, inputs, groupSize, qweight, qzeros, scales: stored };
}
