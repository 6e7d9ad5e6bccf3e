/** Bodies that no client sends: every one is read or refused with an error of the API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mutateJson } from "../../../../tests/support/mutate-json.ts";
import { createRandom } from "../../../../tests/support/random.ts";
import { ApiError } from "../api/api-error.ts";
import type { Schema } from "../api/schema.ts";
import { CHAT_REQUEST, type ChatRequest } from "./chat/request.ts";
import { readTools } from "./chat/tools.ts";
import { COMPLETION_REQUEST } from "./completion/request.ts";
import { EMBEDDING_REQUEST } from "./embeddings.ts";
import { textRequestOf } from "./generation-fields.ts";
import { asChat } from "./responses/as-chat.ts";
import { messagesOf } from "./responses/conversation.ts";
import { withIds } from "./responses/input-items.ts";
import { RESPONSE_REQUEST } from "./responses/request.ts";
import { addedTools, readResponseTools } from "./responses/tools.ts";
import { RERANK_REQUEST, SCORE_REQUEST } from "./score.ts";
import { TOKENIZE_REQUEST } from "./tokenize.ts";

const MUTATIONS = 4000;
const CHAT = {
  model: "m",
  messages: [
    { role: "system", content: "s" },
    {
      role: "user",
      content: [
        { type: "text", text: "t" },
        { type: "image_url", image_url: { url: "data:;base64,AAAA" } },
      ],
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c", content: "r" },
  ],
  tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
  tool_choice: { type: "function", function: { name: "f" } },
  response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } },
  stop: ["a"],
  logit_bias: { "1": 2 },
  seed: 1,
  n: 2,
  stream_options: { include_usage: true },
};

const RESPONSE = {
  model: "m",
  instructions: "i",
  input: [
    { role: "developer", content: "d" },
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_text", text: "t" },
        { type: "input_image", image_url: "data:;base64,AAAA" },
        { type: "input_file", filename: "f", file_data: "data:text/plain;base64,AAAA" },
      ],
    },
    { type: "reasoning", summary: [{ type: "summary_text", text: "s" }], encrypted_content: "nereid1.AAAA" },
    { type: "function_call", call_id: "c", name: "f", namespace: "n", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "r" }] },
    { type: "item_reference", id: "msg_1" },
    { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "g" }] },
  ],
  tools: [
    { type: "function", name: "f", parameters: { type: "object" }, strict: true },
    { type: "custom", name: "p", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    { type: "namespace", name: "n", tools: [{ type: "function", name: "f" }] },
  ],
  tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "f" }] },
  text: { format: { type: "json_schema", name: "n", schema: { type: "object" } }, verbosity: "low" },
  reasoning: { effort: "high", summary: "auto" },
  include: ["reasoning.encrypted_content"],
  metadata: { a: "b" },
};

type Case = readonly [name: string, body: unknown, read: (body: unknown) => void];

const reader =
  (schema: Schema<unknown>) =>
  (body: unknown): void =>
    void schema.read(body, "");

function readChat(body: unknown): void {
  const chat: ChatRequest = CHAT_REQUEST.read(body, "");
  readTools(chat);
  textRequestOf(chat);
}

function readResponse(body: unknown): void {
  const response = RESPONSE_REQUEST.read(body, "");
  readResponseTools(response, addedTools(response.input));
  const items = withIds(response.input).map((item, i) => ({ item, path: `input[${i}]` }));
  textRequestOf(asChat(response, messagesOf(response.instructions, items)));
}

const CASES: readonly Case[] = [
  ["chat", CHAT, readChat],
  ["response", RESPONSE, readResponse],
  ["completion", { model: "m", prompt: ["a", "b"], echo: true, logprobs: 2, suffix: "s" }, reader(COMPLETION_REQUEST)],
  ["embedding", { model: "m", input: [[1, 2], [3]], dimensions: 4 }, reader(EMBEDDING_REQUEST)],
  ["rerank", { model: "m", query: "q", documents: ["a", { text: "b" }], top_n: 1 }, reader(RERANK_REQUEST)],
  ["score", { model: "m", text_1: "a", text_2: ["b"] }, reader(SCORE_REQUEST)],
  ["tokenize", { model: "m", messages: [{ role: "user", content: "c" }] }, reader(TOKENIZE_REQUEST)],
];

for (const [name, body, read] of CASES) {
  test(`${MUTATIONS} broken bodies of a ${name} are read or refused by name`, () => {
    const random = createRandom(name.length);
    const text = JSON.stringify(body);
    let refused = 0;
    for (let i = 0; i < MUTATIONS; i++) {
      const broken = mutateJson(text, random).toString();
      let value: unknown;
      try {
        value = JSON.parse(broken);
      } catch {
        continue; // refused before any schema
      }
      try {
        read(value);
      } catch (error) {
        assert.ok(error instanceof ApiError, `${String(error)}: ${broken}`);
        refused += 1;
      }
    }
    assert.ok(refused > 0);
    assert.equal(Reflect.get({}, "polluted"), undefined);
  });
}
