import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoraTarget, LoraTargets } from "../lora/lora-adapter.ts";
import { parseTrtllmLora } from "./lora.ts";

const QKV: LoraTarget = { linear: "qkv", column: 0, inputs: 3, outputs: 4 };
const DOWN: LoraTarget = { linear: "mlpOut", column: 0, inputs: 2, outputs: 3 };
const TARGETS: LoraTargets = {
  numLayers: 2,
  expertLayers: new Set([1]),
  prefixes: [""],
  layer: "layers.#.",
  modules: new Map(),
  moduleIds: new Map([
    [0, QKV],
    [6, DOWN],
  ]),
};
const WIDTH = 16;
const numbers = (numRows: number): Float32Array => Float32Array.from({ length: numRows * WIDTH }, (_, i) => i);

test("parseTrtllmLora() cuts each row into its two matrices and passes over padding", () => {
  const config = Int32Array.of(0, 1, 2, 0, 0, 0, 6, 0, 1);
  const { changes } = parseTrtllmLora({ numRows: 3, weights: numbers(3), config }, TARGETS);
  assert.deepEqual(changes, [
    {
      layer: 1,
      target: QKV,
      rank: 2,
      a: Float32Array.of(0, 1, 2, 3, 4, 5),
      b: Float32Array.of(6, 7, 8, 9, 10, 11, 12, 13),
    },
    { layer: 0, target: DOWN, rank: 1, a: Float32Array.of(32, 33), b: Float32Array.of(34, 35, 36) },
  ]);
});

const REFUSED: readonly (readonly [name: string, config: readonly number[], expected: RegExp])[] = [
  ["a config of another length", [0, 0], /lora_config: expected 1 rows of 3 as lora_weights has rows, got 2 numbers/],
  ["an unknown module", [9, 0, 1], /lora_config row 0: expected module id 0, 6, got 9/],
  ["a layer beyond the last", [0, 2, 1], /row 0: expected layer 0 to 1, got 2/],
  ["a layer below the first", [0, -1, 1], /row 0: expected layer 0 to 1, got -1/],
  ["an MLP of experts", [6, 1, 1], /row 0: module id 6 of layer 1 is of experts/],
  ["a rank below zero", [0, 0, -3], /row 0: expected rank 1 to 4096, got -3/],
  ["a rank that does not fit its row", [0, 0, 3], /expected 21 numbers of lora_weights for rank 3 of 3 inputs and 4/],
  ["padding alone", [0, 0, 0], /expected a row of a rank above zero/],
];
for (const [name, config, expected] of REFUSED) {
  test(`parseTrtllmLora() refuses ${name}`, () => {
    const parse = (): unknown =>
      parseTrtllmLora({ numRows: 1, weights: numbers(1), config: Int32Array.from(config) }, TARGETS);
    assert.throws(parse, expected);
  });
}

test("parseTrtllmLora() refuses no rows at all", () => {
  const empty = { numRows: 0, weights: new Float32Array(0), config: new Int32Array(0) };
  assert.throws(() => parseTrtllmLora(empty, TARGETS), /lora_config: expected 0 rows/);
});
