import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { checkChat } from "./check-chat.ts";
import { examineModel } from "./examined-model.ts";

const text = (name: string, more = ""): string => `{ name: "${name}" data_type: TYPE_STRING dims: [ 1 ]${more} }`;
const option = (name: string, type: string): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ 1 ] optional: true }`;
const ROUTES = "/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages and /api/chat";
const UNSAMPLED = "temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed";
const OF_TOKENS = "logprobs, logit_bias, stop_token_ids";

interface Case {
  readonly title: string;
  readonly config: string;
  readonly file: string;
  /** Each finding as `problem | fix`. */
  readonly notes: readonly string[];
}

const CASES: readonly Case[] = [
  {
    title: "a Python model with one text in and one out",
    config: `backend: "python" input [ ${text("QUESTION")} ] output [ ${text("REPLY")} ]`,
    file: "model.py",
    notes: [
      `it is a chat model: text in 'QUESTION', answer in 'REPLY' | Call it as model 'm' of ${ROUTES}`,
      `no field of a request has an input; ignored: max_tokens, ${UNSAMPLED}; refused: image_url, min_tokens, ignore_eos, bad_words, response_format, ${OF_TOKENS}; the prompt has a line 'role: text' for each message | For more, declare optional inputs of these names: docs/openai.md`,
    ],
  },
  {
    title: "a TypeScript model that samples, with names of its own",
    config: `backend: "typescript" input [ ${text("prompt")}, ${option("max_new_tokens", "INT32")}, ${option("temperature", "FP32")}, ${option("top_p", "FP32")} ] output [ ${text("text_output")} ]
parameters { key: "chat_template" value: { string_value: "{{ messages[0].content }}" } }
parameters { key: "served_model_name" value: { string_value: "org/model" } }`,
    file: "model.ts",
    notes: [
      `it is a chat model: text in 'prompt', answer in 'text_output' | Call it as model 'm', 'org/model' of ${ROUTES}`,
      `inputs of request fields: max_tokens -> 'max_new_tokens', temperature -> 'temperature', top_p -> 'top_p'; refused: top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed, image_url, min_tokens, ignore_eos, bad_words, response_format, ${OF_TOKENS} | For more, declare optional inputs of these names: docs/openai.md`,
    ],
  },
  {
    title: "a Python model that takes the conversation as JSON",
    config: `backend: "python" input [ ${text("messages")}, ${text("tools", " optional: true")}, ${text("response_format", " optional: true")} ] output [ ${text("text_output")} ]`,
    file: "model.py",
    notes: [
      `it is a chat model: text in 'messages', answer in 'text_output' | Call it as model 'm' of ${ROUTES}`,
      `inputs of request fields: messages -> 'messages', tools -> 'tools', response_format -> 'response_format'; ignored: max_tokens, ${UNSAMPLED}; refused: image_url, min_tokens, ignore_eos, bad_words, ${OF_TOKENS} | For more, declare optional inputs of these names: docs/openai.md`,
    ],
  },
  {
    title: "a Python model with a number that no request carries",
    config: `backend: "python" input [ ${text("text_input")}, { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ] output [ ${text("text_output")} ]`,
    file: "model.py",
    notes: [
      "it is no chat model: required inputs that no request field fills: 'x' | If it should chat: name its tensors as in docs/openai.md, or leave it as it is",
    ],
  },
  {
    title: "a TypeScript model with two texts out",
    config: `backend: "typescript" input [ ${text("text_input")} ] output [ ${text("first")}, ${text("second")} ]`,
    file: "model.ts",
    notes: [
      "it is no chat model: no output of TYPE_STRING with the text: expected 'text_output', or one such output | If it should chat: name its tensors as in docs/openai.md, or leave it as it is",
    ],
  },
  {
    title: "a Python model whose tensors its own code declares",
    config: 'backend: "python"',
    file: "model.py",
    notes: [
      "whether it is a chat model is not known: its tensors come from auto_complete_config | Declare input and output in config.pbtxt, or ask the running server: GET /v1/models",
    ],
  },
];

for (const { title, config, file, notes } of CASES) {
  test(`checkChat() explains ${title}`, async () => {
    const repository = await mkdtemp(join(tmpdir(), "nereid-check-chat-"));
    await mkdir(join(repository, "m", "1"), { recursive: true });
    await writeFile(join(repository, "m", "config.pbtxt"), config);
    await writeFile(join(repository, "m", "1", file), "");
    const model = await examineModel(repository, "m");
    checkChat(model);
    await rm(repository, { recursive: true });
    assert.deepEqual(
      model.findings.map(({ problem, fix }) => `${problem} | ${fix}`),
      notes,
    );
    assert.ok(model.findings.every(({ severity }) => severity === "note"));
  });
}
