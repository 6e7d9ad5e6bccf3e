import assert from "node:assert/strict";
import { test } from "node:test";
import { parseParams } from "./model-params.ts";
import { parseManifest } from "./registry-manifest.ts";

const HEX = "a".repeat(64);
const layer = (kind: string, changes: object = {}): object => ({
  mediaType: `application/vnd.ollama.image.${kind}`,
  digest: `sha256:${HEX}`,
  size: 3,
  ...changes,
});

test("parseManifest() finds the layers that are used, and names those that are not", () => {
  const layers = ["model", "template", "license", "license", "params", "projector"].map((kind) => layer(kind));
  const { model, params, system, unused } = parseManifest({ layers: [...layers, { mediaType: "other" }] }, "x");
  assert.deepEqual([model, params, system], [{ sha256: HEX, bytes: 3 }, { sha256: HEX, bytes: 3 }, undefined]);
  assert.deepEqual(unused, ["projector"]);
});

for (const [title, json, reason] of [
  ["no object", null, /has no layer with a GGUF file/],
  ["no model", { layers: [layer("params")] }, /has no layer with a GGUF file/],
  ["an adapter", { layers: [layer("model"), layer("adapter")] }, /adapter layer, which is not supported/],
  ["two models", { layers: [layer("model"), layer("model")] }, /several model layers/],
  ["a path as digest", { layers: [layer("model", { digest: "sha256:../../x" })] }, /has the digest/],
  ["a negative size", { layers: [layer("model", { size: -1 })] }, /-1 bytes/],
] as const) {
  test(`parseManifest() refuses a manifest with ${title}`, () => {
    assert.throws(() => parseManifest(json, "http://r/m"), reason);
  });
}

test("parseParams() takes sampling values under the names of transformers, and names the others", () => {
  const text = '{"temperature": 0.6, "repeat_penalty": 1.1, "stop": ["x"], "num_ctx": 4096, "top_p": "high"}';
  assert.deepEqual(parseParams(text), {
    sampling: { temperature: 0.6, repetition_penalty: 1.1 },
    unused: ["stop", "num_ctx", "top_p"],
  });
  assert.deepEqual([parseParams("[1]"), parseParams("x")], Array(2).fill({ sampling: {}, unused: [] }));
});
