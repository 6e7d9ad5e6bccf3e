import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { TextEncoder } from "./text-encoder.ts";

const MODELS = fileURLToPath(new URL("../../../../tests/parity/text-encoders/", import.meta.url));
const directory = await mkdtemp(join(tmpdir(), "heads-"));
after(() => rm(directory, { recursive: true }));

type Change = (json: Record<string, unknown>) => unknown;

/** A copy of a recorded folder in which one JSON file is another one. */
async function changed(name: string, file: string, change: Change): Promise<string> {
  const copy = await mkdtemp(join(directory, "model-"));
  await cp(MODELS + name, copy, { recursive: true });
  const json = JSON.parse(await readFile(join(copy, file), "utf8")) as Record<string, unknown>;
  await writeFile(join(copy, file), JSON.stringify(change(json)));
  return copy;
}

const module = (type: string, path = "") => [{ idx: 0, name: "0", path, type: `sentence_transformers.models.${type}` }];

const REFUSED: readonly (readonly [what: string, name: string, file: string, change: Change, expected: RegExp])[] = [
  [
    "a module outside the folder",
    "bert",
    "modules.json",
    () => module("Pooling", "../other"),
    /path: expected a folder inside/,
  ],
  [
    "a module of another kind",
    "bert",
    "modules.json",
    () => module("LSTM"),
    /type: expected Transformer, Pooling, Dense or/,
  ],
  ["modules that are no list", "bert", "modules.json", () => ({}), /expected a list of modules/],
  [
    "two poolings at once",
    "bert",
    "1_Pooling/config.json",
    () => ({ pooling_mode_cls_token: true, pooling_mode_mean_tokens: true }),
    /1_Pooling.*expected one of pooling_mode_cls_token/,
  ],
  [
    "a dense layer of another width",
    "embedding-gemma",
    "2_Dense/config.json",
    (json) => ({ ...json, out_features: 24 }),
    /tensor "linear.weight": expected \[24, 32\], got \[48, 32\]/,
  ],
  [
    "an unknown activation",
    "embedding-gemma",
    "3_Dense/config.json",
    (json) => ({ ...json, activation_function: "torch.nn.modules.activation.Mish" }),
    /activation_function: expected torch\.nn/,
  ],
  [
    "more classes than the head has",
    "bert-classes",
    "config.json",
    (json) => ({ ...json, id2label: { 0: "a", 1: "b", 2: "c", 3: "d" } }),
    /tensor "classifier.weight": expected \[4, 32\], got \[3, 32\]/,
  ],
  [
    "positions that are no table's",
    "bert",
    "config.json",
    (json) => ({ ...json, position_embedding_type: "relative_key" }),
    /position_embedding_type: expected "absolute", got "relative_key"/,
  ],
];

for (const [what, name, file, change, expected] of REFUSED) {
  test(`TextEncoder.open() refuses ${what}, with file and field`, async () => {
    const path = await changed(name, file, change);
    await assert.rejects(TextEncoder.open({ path, numThreads: 1 }), expected);
  });
}

test("TextEncoder.open() reads the switches of older pooling files", async (t) => {
  const path = await changed("bert", "1_Pooling/config.json", () => ({
    word_embedding_dimension: 32,
    pooling_mode_cls_token: false,
    pooling_mode_max_tokens: true,
  }));
  const encoder = await TextEncoder.open({ path, numThreads: 1 });
  t.after(() => encoder.close());
  assert.match(encoder.description, /max pooling$/);
});
