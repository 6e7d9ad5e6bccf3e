/** A tiny LLaVA-NeXT in its Hugging Face folder, from image files and a text to ids, against transformers (see record_llava_next.py). */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import {
  assertClose,
  createVisionRepository,
  imageInput,
  infer,
  io,
  type Numbers,
  parameter,
  step,
} from "../support/vision-language-model.ts";

const FOLDER = fileURLToPath(new URL("llava-next", import.meta.url));
const TOLERANCE = 1e-4;
const NUM_NEW = 12;
/** Every how many pixels one was recorded. */
const PIXEL_STEP = 5;

interface Recorded {
  readonly files: readonly string[];
  readonly text: string;
  readonly pixels: Numbers;
  readonly lengths: readonly number[];
  readonly tokens: Numbers;
  readonly logits: Numbers;
  readonly ids: readonly number[];
}

const FILES = {
  "tiles/config.pbtxt": `name: "tiles" backend: "image" input [ ${io("IMAGE", "STRING", "-1")} ]
    output [ ${io("pixel_values", "FP32", "-1, 3, 12, 12")}, ${io("visual_order", "INT64", "-1")}, ${io("visual_lengths", "INT32", "-1")} ]
    ${parameter("processor", FOLDER)} ${parameter("patch_size", "4")}`,
  "vision_encoder/config.pbtxt": `name: "vision_encoder" backend: "onnxruntime"
    input [ ${io("pixel_values", "FP32", "-1, 3, 12, 12")}, ${io("visual_order", "INT64", "-1")} ] output [ ${io("visual_tokens", "FP32", "-1, 32")} ]`,
  "prompt/config.pbtxt": `name: "prompt" backend: "tokenizer"
    input [ ${io("QUERY", "STRING", "1")}, ${io("VISUAL_TOKENS", "FP32", "-1, 32")}, ${io("VISUAL_LENGTHS", "INT32", "-1")}, ${io("REQUEST_OUTPUT_LEN", "INT32", "1")} ]
    output [ ${io("INPUT_ID", "INT32", "-1")}, ${io("REQUEST_INPUT_LEN", "INT32", "1")}, ${io("REQUEST_OUTPUT_LEN", "INT32", "1")},
      ${io("PROMPT_EMBEDDING_TABLE", "FP32", "-1, -1")}, ${io("PROMPT_VOCAB_SIZE", "INT32", "1")} ]
    ${parameter("tokenizer_dir", FOLDER)}`,
  "llm/config.pbtxt": `name: "llm" backend: "llm" max_batch_size: 4
    input [ ${io("input_ids", "INT32", "-1", "allow_ragged_batch: true")}, ${io("input_lengths", "INT32", "1", "reshape: { shape: [ ] }")},
      ${io("request_output_len", "INT32", "1")}, ${io("prompt_embedding_table", "FP32", "-1, -1", "optional: true allow_ragged_batch: true")},
      ${io("prompt_vocab_size", "INT32", "1", "reshape: { shape: [ ] } optional: true")},
      ${io("return_generation_logits", "BOOL", "1", "reshape: { shape: [ ] } optional: true")} ]
    output [ ${io("output_ids", "INT32", "-1, -1")}, ${io("sequence_length", "INT32", "-1")}, ${io("generation_logits", "FP32", "-1, -1, -1")} ]
    ${parameter("gpt_model_path", FOLDER)} ${parameter("weight_type", "f32")} ${parameter("exclude_input_in_output", "true")}`,
  "see/config.pbtxt": `name: "see" platform: "ensemble"
    input [ ${io("image", "STRING", "-1")}, ${io("text", "STRING", "1")}, ${io("length", "INT32", "1")}, ${io("logits", "BOOL", "1")} ]
    output [ ${io("ids", "INT32", "-1, -1")}, ${io("generation_logits", "FP32", "-1, -1, -1")}, ${io("pixels", "FP32", "-1, 3, 12, 12")},
      ${io("tokens", "FP32", "-1, 32")}, ${io("lengths", "INT32", "-1")} ]
    ensemble_scheduling { step [
      ${step("tiles", ["IMAGE=image"], ["pixel_values=pixels", "visual_order=_order", "visual_lengths=lengths"])},
      ${step("vision_encoder", ["pixel_values=pixels", "visual_order=_order"], ["visual_tokens=tokens"])},
      ${step("prompt", ["QUERY=text", "VISUAL_TOKENS=tokens", "VISUAL_LENGTHS=lengths", "REQUEST_OUTPUT_LEN=length"], ["INPUT_ID=_ids", "REQUEST_INPUT_LEN=_len", "REQUEST_OUTPUT_LEN=_new", "PROMPT_EMBEDDING_TABLE=_table", "PROMPT_VOCAB_SIZE=_rows"])},
      ${step("llm", ["input_ids=_ids", "input_lengths=_len", "request_output_len=_new", "prompt_embedding_table=_table", "prompt_vocab_size=_rows", "return_generation_logits=logits"], ["output_ids=ids", "generation_logits=generation_logits"])}
    ] }`,
};

const cases: Recorded[] = JSON.parse(await readFile(join(FOLDER, "expected.json"), "utf8"));
let repository: ModelRepository;
let server: ServerProcess;

before(async () => {
  repository = await createVisionRepository(FOLDER, FILES);
  const flags = ["--model-control-mode=explicit", "--load-model=see"];
  server = await startServerProcess({ repositories: [repository.path], flags });
});

after(async () => {
  await server?.kill();
  await repository?.[Symbol.asyncDispose]();
});

for (const { files, text, pixels, lengths, tokens, logits, ids } of cases) {
  test(`tiles of ${files.join(" and ")}, their tokens and the answer are those of transformers`, async () => {
    const outputs = await infer(server, "see", [
      await imageInput("image", files),
      { name: "text", datatype: "BYTES", shape: [1], data: [text] },
      { name: "length", datatype: "INT32", shape: [1], data: [NUM_NEW] },
      { name: "logits", datatype: "BOOL", shape: [1], data: [true] },
    ]);
    const all = outputs.get("pixels")?.data ?? [];
    const sampled = all.filter((_, i) => i % PIXEL_STEP === 0).map(Number);
    assertClose({ name: "pixels", datatype: "FP32", shape: [sampled.length], data: sampled }, pixels, TOLERANCE);
    assert.deepEqual(outputs.get("lengths")?.data, lengths);
    assertClose(outputs.get("tokens"), tokens, TOLERANCE);
    const first = outputs.get("generation_logits")?.data.slice(0, logits.data.length).map(Number) ?? [];
    assertClose({ name: "logits", datatype: "FP32", shape: [first.length], data: first }, logits, TOLERANCE);
    assert.deepEqual(outputs.get("ids")?.data, ids);
  });
}
