import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseFiles } from "./choose-files.ts";

const FOLDER = ["config.json", "model.safetensors", "tokenizer.json"];
const GGUF = ["README.md", "tiny-IQ2_XXS.gguf", "tiny-Q8_0.gguf", "tiny-Q4_K_M.gguf", "mmproj-tiny-F16.gguf"];
const SPLIT = ["q4/tiny.Q4_0-00001-of-00002.gguf", "q4/tiny.Q4_0-00002-of-00002.gguf", "tiny.F16.gguf"];

const gguf = (...paths: readonly string[]) => ({ kind: "gguf", paths });

for (const [title, paths, quantization, expected] of [
  ["the folder where there are safetensors", FOLDER, undefined, { kind: "folder" }],
  ["the folder before GGUF files beside it", [...FOLDER, ...GGUF], undefined, { kind: "folder" }],
  ["the GGUF file of a label beside a folder", [...FOLDER, ...GGUF], "Q8_0", gguf("tiny-Q8_0.gguf")],
  ["four bits when nobody asks", GGUF, undefined, gguf("tiny-Q4_K_M.gguf")],
  ["a label in any case", GGUF, "iq2_xxs", gguf("tiny-IQ2_XXS.gguf")],
  ["a file by its name", GGUF, "tiny-Q8_0.gguf", gguf("tiny-Q8_0.gguf")],
  ["all parts of a split file", SPLIT, "Q4_0", gguf(...SPLIT.slice(0, 2))],
  ["the only file, whatever its name", ["x.gguf"], undefined, gguf("x.gguf")],
] as const) {
  test(`chooseFiles() takes ${title}`, () => {
    assert.deepEqual(chooseFiles(paths, quantization, "org/tiny"), expected);
  });
}

for (const [title, paths, quantization, reason] of [
  ["a label that no file has", GGUF, "Q5_0", /no GGUF file for 'Q5_0': it has tiny-IQ2_XXS\.gguf, .*tiny-Q8_0\.gguf$/],
  ["a label where there are safetensors", FOLDER, "Q4_0", /has no GGUF files/],
  ["a repository without a model", ["README.md"], undefined, /holds no model .* it has README\.md/],
  ["an empty repository", [], undefined, /it has no files/],
] as const) {
  test(`chooseFiles() refuses ${title}`, () => {
    assert.throws(() => chooseFiles(paths, quantization, "org/tiny"), reason);
  });
}
