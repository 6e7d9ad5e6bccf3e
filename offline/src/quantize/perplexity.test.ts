import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { measurePerplexity, pieceLoss } from "./perplexity.ts";

const TINY = fileURLToPath(new URL("../../../tests/parity/models/llama-2", import.meta.url));

const ON_CPU = { device: { kind: "cpu" } } as const;

test("pieceLoss() sums the logarithms of what came, each from the row before it", () => {
  const logits = Float32Array.of(0, 0, 0, 1000, 0, Math.log(3), 9, 9, 9);
  const loss = pieceLoss(logits, Int32Array.of(2, 1, 2), 3);
  // A third; then the second row gives the third token e^-997.
  const expected = Math.log(3) + (1000 - Math.log(3));
  assert.ok(Math.abs(loss - expected) < 1e-3, `${loss}`);
});

test("measurePerplexity() is that of all pieces together, and leaves out what foretells nothing", async () => {
  const pieces = [Int32Array.of(5, 60, 7, 200, 31), Int32Array.of(9), Int32Array.of(8, 100)];
  let numDone = 0;
  const { perplexity, numTokens } = await measurePerplexity(TINY, pieces, () => numDone++, ON_CPU);
  assert.deepEqual([numTokens, numDone], [5, 2]);
  const parts = await Promise.all(pieces.map((piece) => measurePerplexity(TINY, [piece], () => undefined, ON_CPU)));
  const [first, , last] = parts.map((part) => Math.log(part.perplexity));
  assert.ok(Math.abs(Math.log(perplexity) - (4 * (first ?? 0) + (last ?? 0)) / 5) < 1e-5);
  assert.ok(perplexity > 1 && perplexity < 2000);
});
