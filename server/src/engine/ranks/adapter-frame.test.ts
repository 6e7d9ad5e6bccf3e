import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoraAdapter } from "../../formats/lora/lora-adapter.ts";
import { frameAdapter, frameUnload, unframeAdapter } from "./adapter-frame.ts";
import { frameStep } from "./step-frame.ts";

const ADAPTER: LoraAdapter = {
  changes: [
    {
      layer: 3,
      target: { linear: "mlpIn", column: 4, inputs: 3, outputs: 2 },
      rank: 1,
      a: Float32Array.of(0.5, -1e-30, 3),
      b: Float32Array.of(7, -8),
    },
    {
      layer: 0,
      target: { linear: "qkv", column: 0, inputs: 1, outputs: 1 },
      rank: 2,
      a: Float32Array.of(1, 2),
      b: Float32Array.of(3, 4),
    },
  ],
};

test("unframeAdapter() gives back what frameAdapter() and frameUnload() were given", () => {
  const frames = [...frameAdapter(9, ADAPTER), frameUnload(8)].map(unframeAdapter);
  assert.deepEqual(frames, [
    { kind: "load", id: 9, numChanges: 2 },
    ...ADAPTER.changes.map((change) => ({ kind: "change", change })),
    { kind: "unload", id: 8 },
  ]);
});

test("unframeAdapter() leaves steps to others", () => {
  const none = new Int32Array(0);
  const step = { tokenIds: none, positions: none, slots: none, sequences: [], logitRows: none };
  assert.equal(unframeAdapter(frameStep(step, undefined, 16)), undefined);
});

test("unframeAdapter() refuses a change that was cut off", () => {
  const [, change = new Int32Array(0)] = frameAdapter(1, ADAPTER);
  assert.throws(() => unframeAdapter(change.subarray(0, -1)), /a change of an adapter of 12 words, got 11/);
});
