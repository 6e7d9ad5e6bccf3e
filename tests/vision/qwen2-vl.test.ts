/**
 * Tiny models of Qwen2-VL and Qwen2.5-VL in their Hugging Face folders, from image files and a text to ids, against
 * transformers (see record_qwen2_vl.py).
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
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
  type Wire,
} from "../support/vision-language-model.ts";

const TOLERANCE = 1e-4;
/** Every how many pixels one was recorded. */
const PIXEL_STEP = 9;

interface Recorded {
  readonly files: readonly string[];
  readonly text: string;
  readonly grids: readonly (readonly number[])[];
  readonly pixels: Numbers;
  readonly tokens: Numbers;
  readonly logits: Numbers;
  readonly ids: readonly number[];
}

const LLM_INPUTS = `${io("input_ids", "INT32", "-1", "allow_ragged_batch: true")}, ${io("input_lengths", "INT32", "1", "reshape: { shape: [ ] }")},
  ${io("request_output_len", "INT32", "1")}, ${io("prompt_embedding_table", "FP32", "-1, -1", "optional: true allow_ragged_batch: true")},
  ${io("prompt_vocab_size", "INT32", "1", "reshape: { shape: [ ] } optional: true")},
  ${io("mrope_position_ids", "INT32", "3, -1", "optional: true allow_ragged_batch: true")},
  ${io("return_generation_logits", "BOOL", "1", "reshape: { shape: [ ] } optional: true")}`;
const LLM_OUTPUTS = `${io("output_ids", "INT32", "-1, -1")}, ${io("sequence_length", "INT32", "-1")}, ${io("generation_logits", "FP32", "-1, -1, -1")}`;

const filesOf = (folder: string): Record<string, string> => ({
  "patches/config.pbtxt": `name: "patches" backend: "image" input [ ${io("IMAGE", "STRING", "-1")} ]
    output [ ${io("pixel_values", "FP32", "-1, 96")}, ${io("patch_positions", "INT64", "-1, 3")}, ${io("image_grid_thw", "INT64", "-1, 3")},
      ${io("visual_lengths", "INT32", "-1")} ]
    ${parameter("processor", folder)}`,
  "vision_encoder/config.pbtxt": `name: "vision_encoder" backend: "onnxruntime"
    input [ ${io("pixel_values", "FP32", "-1, 96")}, ${io("patch_positions", "INT64", "-1, 3")} ] output [ ${io("visual_tokens", "FP32", "-1, 32")} ]`,
  "prompt/config.pbtxt": `name: "prompt" backend: "tokenizer"
    input [ ${io("QUERY", "STRING", "1")}, ${io("VISUAL_TOKENS", "FP32", "-1, 32", "optional: true")}, ${io("VISUAL_LENGTHS", "INT32", "-1", "optional: true")},
      ${io("IMAGE_GRID_THW", "INT64", "-1, 3", "optional: true")}, ${io("REQUEST_OUTPUT_LEN", "INT32", "1")} ]
    output [ ${io("INPUT_ID", "INT32", "-1")}, ${io("REQUEST_INPUT_LEN", "INT32", "1")}, ${io("REQUEST_OUTPUT_LEN", "INT32", "1")},
      ${io("PROMPT_EMBEDDING_TABLE", "FP32", "-1, -1")}, ${io("PROMPT_VOCAB_SIZE", "INT32", "1")}, ${io("MROPE_POSITION_IDS", "INT32", "3, -1")} ]
    ${parameter("tokenizer_dir", folder)} ${parameter("image_token", "<|image_pad|>")}`,
  "llm/config.pbtxt": `name: "llm" backend: "llm" max_batch_size: 4 input [ ${LLM_INPUTS} ] output [ ${LLM_OUTPUTS} ]
    ${parameter("gpt_model_path", folder)} ${parameter("weight_type", "f32")} ${parameter("exclude_input_in_output", "true")}`,
  "see/config.pbtxt": `name: "see" platform: "ensemble"
    input [ ${io("image", "STRING", "-1")}, ${io("text", "STRING", "1")}, ${io("length", "INT32", "1")}, ${io("logits", "BOOL", "1")} ]
    output [ ${io("ids", "INT32", "-1, -1")}, ${io("generation_logits", "FP32", "-1, -1, -1")}, ${io("pixels", "FP32", "-1, 96")},
      ${io("tokens", "FP32", "-1, 32")}, ${io("grids", "INT64", "-1, 3")} ]
    ensemble_scheduling { step [
      ${step("patches", ["IMAGE=image"], ["pixel_values=pixels", "patch_positions=_places", "image_grid_thw=grids", "visual_lengths=_lengths"])},
      ${step("vision_encoder", ["pixel_values=pixels", "patch_positions=_places"], ["visual_tokens=tokens"])},
      ${step("prompt", ["QUERY=text", "VISUAL_TOKENS=tokens", "VISUAL_LENGTHS=_lengths", "IMAGE_GRID_THW=grids", "REQUEST_OUTPUT_LEN=length"], ["INPUT_ID=_ids", "REQUEST_INPUT_LEN=_len", "REQUEST_OUTPUT_LEN=_new", "PROMPT_EMBEDDING_TABLE=_table", "PROMPT_VOCAB_SIZE=_rows", "MROPE_POSITION_IDS=_positions"])},
      ${step("llm", ["input_ids=_ids", "input_lengths=_len", "request_output_len=_new", "prompt_embedding_table=_table", "prompt_vocab_size=_rows", "mrope_position_ids=_positions", "return_generation_logits=logits"], ["output_ids=ids", "generation_logits=generation_logits"])}
    ] }`,
});

for (const name of ["qwen2-vl", "qwen2.5-vl"]) {
  describe(name, async () => {
    const folder = fileURLToPath(new URL(name, import.meta.url));
    const cases: readonly Recorded[] = JSON.parse(await readFile(join(folder, "expected.json"), "utf8"));
    let repository: ModelRepository;
    let server: ServerProcess;

    before(async () => {
      repository = await createVisionRepository(folder, filesOf(folder));
      const flags = ["--model-control-mode=explicit", "--load-model=see"];
      server = await startServerProcess({ repositories: [repository.path], flags });
    });

    after(async () => {
      await server?.kill();
      await repository?.[Symbol.asyncDispose]();
    });

    const see = async ({ files, text, ids }: Recorded): Promise<ReadonlyMap<string, Wire>> =>
      infer(server, "see", [
        await imageInput("image", files),
        { name: "text", datatype: "BYTES", shape: [1], data: [text] },
        { name: "length", datatype: "INT32", shape: [1], data: [ids.length] },
        { name: "logits", datatype: "BOOL", shape: [1], data: [true] },
      ]);
    const read = ({ text, ids }: Recorded): Promise<ReadonlyMap<string, Wire>> => {
      const prompt = text.split(" ").map((word) => Number(word.slice(1)));
      return infer(server, "llm", [
        { name: "input_ids", datatype: "INT32", shape: [1, prompt.length], data: prompt },
        { name: "input_lengths", datatype: "INT32", shape: [1, 1], data: [prompt.length] },
        { name: "request_output_len", datatype: "INT32", shape: [1, 1], data: [ids.length] },
        { name: "return_generation_logits", datatype: "BOOL", shape: [1, 1], data: [true] },
      ]);
    };
    const ask = async (recorded: Recorded): Promise<void> => {
      const outputs = await (recorded.files.length > 0 ? see(recorded) : read(recorded));
      assertAnswer(outputs.get("ids") ?? outputs.get("output_ids"), outputs.get("generation_logits"), recorded);
    };

    for (const recorded of cases.filter(({ files }) => files.length > 0)) {
      const { files, grids, pixels, tokens } = recorded;
      test(`patches of ${files.join(" and ")}, their tokens and the answer are those of transformers`, async () => {
        const outputs = await see(recorded);
        assert.deepEqual(outputs.get("grids")?.data, grids.flat());
        const all = outputs.get("pixels")?.data ?? [];
        const sampled = all.filter((_, i) => i % PIXEL_STEP === 0);
        assertClose({ name: "pixels", datatype: "FP32", shape: [sampled.length], data: sampled }, pixels, TOLERANCE);
        assertClose(outputs.get("tokens"), tokens, TOLERANCE);
        assertAnswer(outputs.get("ids"), outputs.get("generation_logits"), recorded);
      });
    }

    test("a text without images gets the answer of transformers", async () => {
      const texts = cases.filter(({ files }) => files.length === 0);
      assert.equal(texts.length, 1);
      for (const recorded of texts) await ask(recorded);
    });

    test("texts and images side by side in the steps of the engine get the same answers", async () => {
      await Promise.all([...cases, ...cases, ...cases].map(ask));
    });
  });
}

function assertAnswer(ids: Wire | undefined, logits: Wire | undefined, recorded: Recorded): void {
  assertClose(
    logits === undefined ? undefined : { ...logits, shape: logits.shape.slice(-2) },
    recorded.logits,
    TOLERANCE,
  );
  assert.deepEqual(ids?.data, recorded.ids);
}
