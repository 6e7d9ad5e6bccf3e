import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoraAdapter, LoraChange, LoraTarget } from "../../formats/lora/lora-adapter.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { AdapterShares } from "./rank-lora.ts";

const RANK = 2;
const { config } = parseDecoderConfig({
  config: {
    architectures: ["LlamaForCausalLM"],
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    vocab_size: 256,
    hidden_size: 8,
    intermediate_size: 12,
    num_hidden_layers: 3,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 4,
    max_position_embeddings: 64,
  },
  generation: undefined,
  at: { config: "test", generation: "test" },
});

const QKV: LoraTarget = { linear: "qkv", column: 0, inputs: 8, outputs: 32 };
const KEYS: LoraTarget = { ...QKV, column: 16, outputs: 8 };
const UP: LoraTarget = { linear: "mlpIn", column: 12, inputs: 8, outputs: 12 };
const OUT: LoraTarget = { linear: "oProj", column: 0, inputs: 16, outputs: 8 };
const DOWN: LoraTarget = { linear: "mlpOut", column: 0, inputs: 12, outputs: 8 };

function changeOf(layer: number, target: LoraTarget): LoraChange {
  const numbers = (count: number, factor: number): Float32Array =>
    Float32Array.from({ length: count }, (_, i) => ((i * factor) % 13) - 6);
  return { layer, target, rank: RANK, a: numbers(RANK * target.inputs, 7), b: numbers(target.outputs * RANK, 5) };
}

const ADAPTER: LoraAdapter = {
  changes: [changeOf(0, QKV), changeOf(0, OUT), changeOf(1, KEYS), changeOf(1, UP), changeOf(2, DOWN)],
};

/** b . a, [outputs, inputs]. */
function productOf({ target: { inputs, outputs }, rank, a, b }: LoraChange): number[][] {
  return Array.from({ length: outputs }, (_, o) =>
    Array.from({ length: inputs }, (_unused, i) => {
      let sum = 0;
      for (let r = 0; r < rank; r++) sum += (b[o * rank + r] ?? 0) * (a[r * inputs + i] ?? 0);
      return sum;
    }),
  );
}

function onlyChange(adapter: LoraAdapter, layer: number): LoraChange {
  const found = adapter.changes.find((change) => change.layer === layer);
  assert.ok(found);
  return found;
}

/** The rows of the stacked projection that a rank's columns stand for. */
function rowsOf(places: readonly number[], { column, outputs }: LoraTarget): readonly number[] {
  return places.slice(column, column + outputs);
}

const counting = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i);

test("partOf() gives ranks that share a layer the outputs of their heads and inner columns", () => {
  const shares = new AdapterShares(config, { numTensorRanks: 2, numStages: 1 });
  // Two of four heads of queries, one of two of keys and of values; half of gate and half of up.
  const qkv = (rank: number): number[] => [
    ...counting(8 * rank, 8),
    ...counting(16 + 4 * rank, 4),
    ...counting(24 + 4 * rank, 4),
  ];
  const gateUp = (rank: number): number[] => [...counting(6 * rank, 6), ...counting(12 + 6 * rank, 6)];
  for (const rank of [0, 1]) {
    const part = shares.partOf(ADAPTER, rank);
    for (const [layer, linear, places] of [
      [0, "qkv", qkv(rank)],
      [1, "qkv", qkv(rank)],
      [1, "mlpIn", gateUp(rank)],
    ] as const) {
      const isOne = (change: LoraChange): boolean => change.layer === layer && change.target.linear === linear;
      const [own, whole] = [part.changes.find(isOne), ADAPTER.changes.find(isOne)];
      assert.ok(own && whole);
      const wanted = rowsOf(places, own.target).map((row) => productOf(whole)[row - whole.target.column]);
      assert.deepEqual(productOf(own), wanted);
    }
  }
});

test("partOf() gives ranks that share a layer's inputs parts that add up to the whole", () => {
  const shares = new AdapterShares(config, { numTensorRanks: 2, numStages: 1 });
  const parts = [0, 1].map((rank) => shares.partOf(ADAPTER, rank));
  const down = parts.map((part) => productOf(onlyChange(part, 2)));
  const whole = productOf(onlyChange(ADAPTER, 2));
  assert.deepEqual(
    whole.map((_, row) => down.flatMap((part) => part[row] ?? [])),
    whole,
  );
});

test("partOf() gives each stage its layers, numbered anew", () => {
  const shares = new AdapterShares(config, { numTensorRanks: 1, numStages: 2 });
  const layers = [0, 1].map((rank) => shares.partOf(ADAPTER, rank).changes.map(({ layer, target }) => [layer, target]));
  assert.deepEqual(layers, [
    [
      [0, QKV],
      [0, OUT],
      [1, KEYS],
      [1, UP],
    ],
    [[0, DOWN]],
  ]);
});

test("outlines() has the shapes of the parts of each stage", () => {
  const shares = new AdapterShares(config, { numTensorRanks: 2, numStages: 2 });
  const shapesOf = ({ changes }: LoraAdapter): unknown =>
    changes.map(({ layer, rank, target }) => [layer, rank, target]);
  assert.deepEqual(
    shares.outlines(ADAPTER).map(shapesOf),
    [0, 2].map((rank) => shapesOf(shares.partOf(ADAPTER, rank))),
  );
});

test("partOf() repeats heads of keys for ranks that are more than these", () => {
  const wide: DecoderConfig = { ...config, numHeads: 8, numKvHeads: 2, headDim: 2 };
  const shares = new AdapterShares(wide, { numTensorRanks: 4, numStages: 1 });
  const keys: LoraTarget = { ...KEYS, column: 16, outputs: 4 };
  const whole = changeOf(0, keys);
  const parts = [0, 1, 2, 3].map((rank) => onlyChange(shares.partOf({ changes: [whole] }, rank), 0));
  assert.deepEqual(
    parts.map(({ target: { column, outputs } }) => [column, outputs]),
    [4, 4, 4, 4].map((column) => [column, 2]),
  );
  assert.deepEqual(parts[0]?.b, parts[1]?.b);
  assert.deepEqual([...(parts[1]?.b ?? []), ...(parts[2]?.b ?? [])], [...whole.b]);
});
