import assert from "node:assert/strict";
import { test } from "node:test";
import type { DecoderConfig, DecoderLayer } from "./decoder-config.ts";
import { narrowWindows, widestWindow } from "./layer-windows.ts";

/** Only what windows depend on. */
function decoder(windows: readonly (number | undefined)[]): DecoderConfig {
  const layers = windows.map((window): DecoderLayer => ({ window, rope: 0, mlp: "dense" }));
  return { layers, maxPositions: 100 } as unknown as DecoderConfig;
}

const CASES: readonly (readonly [
  own: readonly (number | undefined)[],
  sizes: readonly number[],
  expected: readonly (number | undefined)[],
])[] = [
  [[undefined, undefined], [], [undefined, undefined]],
  [[undefined, undefined, undefined], [30], [30, 30, 30]],
  [
    [undefined, undefined, undefined],
    [30, 40],
    [30, 40, 30],
  ],
  [[undefined, 20], [100], [undefined, 20]], // every position is seen: no window
  [
    [20, 20, 20],
    [30, 10],
    [20, 10, 20],
  ], // never wider than the model's own
];

test("narrowWindows() gives sizes to the layers in turn, and never widens", () => {
  for (const [own, sizes, expected] of CASES) {
    assert.deepEqual(
      narrowWindows(decoder(own), sizes).layers.map(({ window }) => window),
      expected,
    );
  }
});

test("widestWindow() is undefined when a layer sees everything", () => {
  assert.equal(widestWindow(decoder([10, 30, 20])), 30);
  assert.equal(widestWindow(decoder([10, undefined])), undefined);
});
