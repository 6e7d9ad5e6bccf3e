import assert from "node:assert/strict";
import { test } from "node:test";
import { applyLayers, outputsOf } from "./vector-layers.ts";

const IDENTITY = { weight: Float32Array.of(1, 0, 0, 1), bias: undefined };

test("applyLayers() multiplies, adds the bias, activates and normalizes in turn", () => {
  const dense = {
    weight: Float32Array.of(1, 2, 3, 4, 5, 6),
    bias: Float32Array.of(1, 0, -1),
    activation: "relu" as const,
  };
  assert.deepEqual([...applyLayers([dense], Float32Array.of(1, -1))], [0, 0, 0]);
  assert.deepEqual([...applyLayers([dense], Float32Array.of(1, 1))], [4, 7, 10]);
  assert.equal(outputsOf([dense], 2), 3);
  assert.equal(outputsOf([], 5), 5);
  const norm = { weight: Float32Array.of(1, 2), bias: Float32Array.of(0, 1), epsilon: 0 };
  const [a, b] = applyLayers([{ ...IDENTITY, activation: "none", norm }], Float32Array.of(3, 1));
  assert.deepEqual([a, b], [1, -1]);
});

test("the exact GELU agrees with its published values", () => {
  const x = [-4, -2, -0.5, 0, 0.5, 1, 2, 4.5, 9];
  const gelu = (value: number): number =>
    applyLayers([{ ...IDENTITY, activation: "gelu" }], Float32Array.of(value, 0))[0] ?? 0;
  const wanted = [-1.2668e-4, -4.55e-2, -0.154269, 0, 0.345731, 0.841345, 1.9545, 4.499985, 9];
  for (const [i, value] of x.entries()) assert.ok(Math.abs(gelu(value) - (wanted[i] ?? 0)) < 1e-5, `gelu(${value})`);
});
