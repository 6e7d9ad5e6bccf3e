import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type ParsedDecoder, parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { expectCudaSupport, missingOnCuda } from "./supported.ts";

const PARITY = new URL("../../../../tests/parity/", import.meta.url);

function parsedOf(folder: string, name: string): ParsedDecoder {
  const config: unknown = JSON.parse(readFileSync(new URL(`${folder}/${name}/config.json`, PARITY), "utf8"));
  return parseDecoderConfig({ config, generation: undefined, at: { config: name, generation: name } });
}

function missingOf(folder: string, name: string): readonly string[] {
  const { config, weights } = parsedOf(folder, name);
  return missingOnCuda(config, weights);
}

test("missingOnCuda() finds nothing in models that GPUs have run from the start", () => {
  for (const name of readdirSync(new URL("models/", PARITY))) assert.deepEqual(missingOf("models", name), [], name);
});

const MISSING: Readonly<Record<string, readonly RegExp[]>> = {
  smollm3: [],
  "granite-moe-shared": [],
  opt: [],
  "falcon-40b": [],
  nemotron: [],
  "deepseek-v3": [/interleaved pairs/, /latent attention/, /routing of experts/],
  "gpt-oss": [],
  "olmo-2": [/query and key norms/, /attention without a norm/, /MLP without a norm/],
  "glm-4": [/interleaved pairs/],
  "glm-4-moe": [/routing of experts/],
  bloom: [/ALiBi/, /norm of embeddings/],
  "mpt-2": [/ALiBi/, /clipped/],
  "ministral-3": [/temperatures/],
};

for (const [name, expected] of Object.entries(MISSING)) {
  test(`missingOnCuda() names ${expected.length} parts of ${name}`, () => {
    const missing = missingOf("architectures", name);
    assert.equal(missing.length, expected.length, missing.join("; "));
    for (const [i, reason] of missing.entries()) assert.match(reason, expected[i] ?? /never/);
  });
}

test("expectCudaSupport() says what is missing and what to do", () => {
  const { config, weights } = parsedOf("architectures", "glm-4-moe");
  assert.throws(
    () => expectCudaSupport(config, weights),
    /GPU engine lacks: this routing of experts. Serve it on the CPU/,
  );
});
