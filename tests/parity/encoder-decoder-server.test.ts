/** T5 behind the built server: text through the ensemble and OpenAI's route, streams, beams; Whisper's frames as tensors. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createPipeline } from "../support/llm-pipeline.ts";
import { startServerProcess } from "../support/server-process.ts";
import { ENCODER_DECODERS, readEncoderDecoder } from "./encoder-decoders.ts";

interface RecordedText {
  readonly input: string;
  readonly ids: readonly number[];
  readonly generated: readonly number[];
  readonly output: string;
}

const MODEL = `${ENCODER_DECODERS}t5-flan`;
const { text } = JSON.parse(readFileSync(`${MODEL}/expected.json`, "utf8")) as { readonly text: RecordedText };

test("a T5 folder answers texts as transformers does, whole, streamed, and by OpenAI's route", async (t) => {
  await using repository = await createPipeline({
    preprocessing: `tokenizer_dir:${MODEL}`,
    postprocessing: `tokenizer_dir:${MODEL}`,
    tensorrt_llm: `engine_dir:${MODEL},tokenizer_dir:${MODEL},max_beam_width:2,exclude_input_in_output:True`,
  });
  const server = await startServerProcess({ repositories: [repository.path] });
  t.after(() => server.kill());
  const post = async (path: string, body: unknown): Promise<string> =>
    (await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) })).text();
  const question = { text_input: text.input, max_tokens: text.generated.length };
  const whole = JSON.parse(await post("/v2/models/ensemble/generate", question)) as { readonly text_output: string };
  assert.equal(whole.text_output, text.output);
  const events = await post("/v2/models/ensemble/generate_stream", { ...question, stream: true });
  const parts = [...events.matchAll(/^data: (.*)$/gm)].map(([, data = "{}"]) => JSON.parse(data));
  assert.ok(parts.length > 1, "several events");
  assert.equal(parts.map(({ text_output: part }) => part).join(""), text.output);
  const asked = { model: "tensorrt_llm", prompt: text.input, max_tokens: text.generated.length, temperature: 0 };
  const completion = JSON.parse(await post("/v1/completions", asked)) as {
    readonly choices: readonly { readonly text: string }[];
    readonly usage: { readonly prompt_tokens: number };
  };
  assert.deepEqual([completion.choices[0]?.text, completion.usage.prompt_tokens], [text.output, text.ids.length]);
  const beams = await post("/v2/models/tensorrt_llm/generate", {
    input_ids: text.ids,
    input_lengths: text.ids.length,
    request_output_len: 4,
    beam_width: 2,
  });
  const { output_ids: found } = JSON.parse(beams) as { readonly output_ids: readonly number[] };
  assert.equal(found.length, 8, "two beams of four");
});

test("Whisper's frames go in as tensors of TensorRT-LLM's whisper template, and the recorded ids come out", async (t) => {
  const recorded = readEncoderDecoder("whisper");
  const more = { tensorrt_llm: `engine_dir:${ENCODER_DECODERS}whisper,decoupled_mode:False` };
  // JSON has no halves.
  await using repository = await createPipeline(more, (text) => text.replaceAll("TYPE_FP16", "TYPE_FP32"));
  const only = ["--model-control-mode=explicit", "--load-model=tensorrt_llm"];
  const server = await startServerProcess({ repositories: [repository.path], flags: only });
  t.after(() => server.kill());
  const { frames = [], prompt, greedy } = recorded;
  const tensor = (name: string, shape: readonly number[], data: readonly number[], datatype = "INT32") => ({
    name,
    datatype,
    shape: [1, ...shape],
    data,
  });
  const body = {
    inputs: [
      tensor("encoder_input_features", [frames.length, frames[0]?.length ?? 0], frames.flat(), "FP32"),
      tensor("encoder_output_lengths", [1], [frames.length / 2]),
      tensor("input_lengths", [1], [frames.length]),
      tensor("decoder_input_ids", [prompt.length], prompt),
      tensor("request_output_len", [1], [greedy.length]),
      tensor("end_id", [1], [-1]),
      { ...tensor("exclude_input_in_output", [1], []), datatype: "BOOL", data: [true] },
    ],
  };
  const response = await fetch(`${server.baseUrl}/v2/models/tensorrt_llm/infer`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as {
    readonly error?: string;
    readonly outputs?: readonly { readonly name: string; readonly data: readonly number[] }[];
  };
  assert.equal(answer.error, undefined);
  assert.deepEqual(answer.outputs?.find(({ name }) => name === "output_ids")?.data, greedy);
});
