/**
 * Encoders from Hugging Face folders on our own engine, against vectors of sentence-transformers and classes and scores of
 * transformers for the same texts (record_text_encoders.py): all texts in one pass, and in passes of a few tokens.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { TextEncoder } from "../../server/src/engine/encoder/text-encoder.ts";

interface Expected {
  readonly texts: readonly string[];
  readonly vectors: readonly (readonly number[])[];
  readonly pairs?: readonly (readonly [string, string])[];
  readonly scores?: readonly (readonly number[])[];
}

const MODELS = fileURLToPath(new URL("text-encoders/", import.meta.url));
const BOUND = 1e-4;
/** Enough for the longest text. */
const FEW_TOKENS = 64;

function normalized(values: Float32Array, width: number): Float32Array {
  return values.map((value, i) => {
    const first = i - (i % width);
    return value / Math.hypot(...values.subarray(first, first + width));
  });
}

for (const name of readdirSync(MODELS).sort()) {
  test(`${name} gives the recorded vectors`, async (t) => {
    const { texts, vectors, pairs, scores } = JSON.parse(
      readFileSync(`${MODELS}${name}/expected.json`, "utf8"),
    ) as Expected;
    let off = 0;
    for (const maxTokens of [0, FEW_TOKENS]) {
      const encoder = await TextEncoder.open({ path: MODELS + name, maxTokens, numThreads: 1 });
      t.after(() => encoder.close());
      const raw = await encoder.encode(texts.map((text) => [text] as const));
      const actual = encoder.isClassifier ? raw : normalized(raw, encoder.width);
      off = Math.max(off, maxDifference(actual, vectors.flat()));
      const scored = await encoder.encode(pairs ?? []);
      off = Math.max(off, maxDifference(scored, (scores ?? []).flat()));
    }
    t.diagnostic(`largest difference ${off.toExponential(1)}`);
    assert.ok(off < BOUND, `vectors are off by ${off}`);
  });
}

test("a text that is too long, and a head that is missing, are refused with their numbers", async (t) => {
  const encoder = await TextEncoder.open({ path: `${MODELS}bert`, maxTokens: 8, numThreads: 1 });
  t.after(() => encoder.close());
  await assert.rejects(encoder.encode([["fox"], ["the quick brown fox over the lazy dog"]]), {
    message: /^text 1: expected 1 to 8 tokens, got \d+$/,
  });
  const ranked = TextEncoder.open({ path: `${MODELS}bert`, pooling: "rank", numThreads: 1 });
  await assert.rejects(ranked, /pooling 'rank' takes a model with a head/);
});
