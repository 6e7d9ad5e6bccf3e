import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { bytesTensor, floatTensor, type LoadedInstance, loadInstance } from "../../../../tests/fakes/run-instance.ts";
import type { Tensor } from "../../core/tensor.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import { encodePrompt, renderPrompt } from "./image-prompt.ts";
import { intValues } from "./tensor-values.ts";
import { createTokenizerBackend } from "./tokenizer-backend.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const tokenizer = await loadTokenizer(MODEL);
const SETTINGS = {
  template: "[INST]{images}\n{text} [/INST]",
  place: "<image>",
  framedPlace: "<image>",
  vocabularySize: 6144,
  addSpecialTokens: true,
};

test("renderPrompt() frames the places that it adds, and leaves those of the text alone", () => {
  const framed = { ...SETTINGS, template: "{images}{text}", framedPlace: "[<image>]" };
  assert.equal(renderPrompt(framed, "Hi", 2), "[<image>][<image>]Hi");
  assert.equal(renderPrompt(framed, "a <image> b", 1), "a <image> b");
});

for (const [text, images, expected] of [
  ["Hi", 1, "[INST]<image>\nHi [/INST]"],
  ["Hi", 2, "[INST]<image><image>\nHi [/INST]"],
  ["Hi", 0, "[INST]\nHi [/INST]"],
  ["One <image>, two <image>", 2, "[INST]\nOne <image>, two <image> [/INST]"],
  ["{images} {text} $& $1", 1, "[INST]<image>\n{images} {text} $& $1 [/INST]"],
] as const) {
  test(`renderPrompt() of ${JSON.stringify(text)} with ${images} images`, () => {
    assert.equal(renderPrompt(SETTINGS, text, images), expected);
  });
}

test("renderPrompt() refuses places without images and images without places", () => {
  assert.throws(() => renderPrompt(SETTINGS, "<image> <image>", 1), /2 places '<image>' for 1 images/);
  assert.throws(() => renderPrompt({ ...SETTINGS, template: "{text}" }, "Hi", 1), /0 places '<image>' for 1 images/);
});

function idsOf(settings: typeof SETTINGS, prompt: string, lengths: readonly number[]): number[] {
  const steps = encodePrompt(settings, tokenizer, prompt, lengths);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return [...step.value];
  }
}

test("encodePrompt() gives each place its rows behind the vocabulary, and leaves the text as it is encoded alone", () => {
  const plain = (text: string): number[] => [...tokenizer.encode(text, { addSpecialTokens: false })];
  const bos = tokenizer.bosId ?? -1;
  const expected = [bos, ...plain("[INST]"), 6144, 6145, ...plain(" and "), 6146, ...plain("\nHi")];
  assert.deepEqual(idsOf(SETTINGS, "[INST]<image> and <image>\nHi", [2, 1]), expected);
  // A placeholder that is no token of its own.
  assert.deepEqual(idsOf({ ...SETTINGS, place: "@@" }, "[INST]@@ and @@\nHi", [2, 1]), expected);
});

function config(batch: number, dims: string, more = ""): string {
  const io = (name: string, type: string, of: string): string =>
    `{ name: "${name}" data_type: TYPE_${type} dims: [ ${of} ] }`;
  return `name: "prompts" backend: "tokenizer" max_batch_size: ${batch}
    input [ ${io("QUERY", "STRING", "1")}, ${io("VISUAL_TOKENS", "FP32", dims)}${more} ]
    output [ ${io("INPUT_ID", "INT32", "-1")}, ${io("REQUEST_INPUT_LEN", "INT32", "1")}, ${io("REQUEST_OUTPUT_LEN", "INT32", "1")},
             ${io("PROMPT_EMBEDDING_TABLE", "FP16", "-1, -1")}, ${io("PROMPT_VOCAB_SIZE", "INT32", "1")} ]
    parameters { key: "tokenizer_dir" value { string_value: "${MODEL}" } }
    parameters { key: "max_tokens" value { string_value: "9" } }`;
}

const load = (text: string): Promise<LoadedInstance> => loadInstance(createTokenizerBackend(), text, "/none");
const intsOf = (tensor: Tensor | undefined): number[] => (tensor === undefined ? [] : [...intValues(tensor)]);

test("preprocessing puts the rows of all images of a prompt into one table of halves", async () => {
  await using loaded = await load(config(0, "-1, -1, 3"));
  const outputs = await loaded.run([
    bytesTensor("QUERY", [1], ["Hi"]),
    floatTensor("VISUAL_TOKENS", [2, 2, 3], Array(12).fill(0.5)),
  ]);
  assert.deepEqual(outputs.get("PROMPT_EMBEDDING_TABLE")?.shape, [4, 3]);
  assert.equal(outputs.get("PROMPT_EMBEDDING_TABLE")?.data.length, 4 * 3 * 2);
  assert.deepEqual(intsOf(outputs.get("PROMPT_VOCAB_SIZE")), [4]);
  assert.deepEqual(intsOf(outputs.get("REQUEST_OUTPUT_LEN")), [9]);
  assert.deepEqual(
    intsOf(outputs.get("INPUT_ID")).filter((id) => id >= 6144),
    [6144, 6145, 6146, 6147],
  );
});

test("preprocessing of a batch has one image a row", async () => {
  await using loaded = await load(config(4, "-1, 3"));
  const outputs = await loaded.run([
    bytesTensor("QUERY", [2, 1], ["Hi", "Hello there"]),
    floatTensor("VISUAL_TOKENS", [2, 2, 3], Array(12).fill(1)),
  ]);
  assert.deepEqual(outputs.get("PROMPT_EMBEDDING_TABLE")?.shape, [2, 2, 3]);
  assert.deepEqual(intsOf(outputs.get("PROMPT_VOCAB_SIZE")), [2, 2]);
});

test("VISUAL_LENGTHS splits rows of images of different sizes, and must add up", async () => {
  const more = ', { name: "VISUAL_LENGTHS" data_type: TYPE_INT32 dims: [ -1 ] }';
  await using loaded = await load(config(0, "-1, 3", more));
  const lengths = (...values: readonly number[]): Tensor => ({
    name: "VISUAL_LENGTHS",
    datatype: "INT32",
    shape: [values.length],
    data: new Uint8Array(Int32Array.from(values).buffer),
  });
  const inputs = [
    bytesTensor("QUERY", [1], ["<image> x <image>"]),
    floatTensor("VISUAL_TOKENS", [5, 3], Array(15).fill(1)),
  ];
  const ids = intsOf((await loaded.run([...inputs, lengths(4, 1)])).get("INPUT_ID"));
  assert.ok(ids.indexOf(6148) > ids.indexOf(6147) + 1);
  await assert.rejects(loaded.run([...inputs, lengths(4, 2)]), /says \[4, 2\] rows, input 'VISUAL_TOKENS' has 5/);
});

test("texts for an encoder are cut before their end tokens and padded to a multiple", async () => {
  const text = `name: "texts" backend: "tokenizer" max_batch_size: 4
    input [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
    output [ { name: "input_ids" data_type: TYPE_INT64 dims: [ -1 ] }, { name: "attention_mask" data_type: TYPE_INT64 dims: [ -1 ] } ]
    parameters { key: "tokenizer_dir" value { string_value: "${MODEL}" } }
    parameters { key: "max_length" value { string_value: "6" } } parameters { key: "pad_to_multiple_of" value { string_value: "4" } }`;
  await using loaded = await load(text);
  const outputs = await loaded.run([bytesTensor("TEXT", [2, 1], ["  a ", "one two three four five six seven eight"])]);
  assert.deepEqual(outputs.get("input_ids")?.shape, [2, 6]);
  const mask = intsOf(outputs.get("attention_mask"));
  assert.deepEqual(mask.slice(0, 6), [1, 1, 0, 0, 0, 0]);
  assert.deepEqual(mask.slice(6), [1, 1, 1, 1, 1, 1]);
});
