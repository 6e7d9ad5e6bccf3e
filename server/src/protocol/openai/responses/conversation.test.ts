/** Items as messages of a chat. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatMessage } from "../../../chat/chat-contract.ts";
import { ApiError } from "../../api/api-error.ts";
import type { JsonObject } from "../../api/schema.ts";
import { messagesOf } from "./conversation.ts";
import { encodeText } from "./opaque-text.ts";

const user = (content: unknown): JsonObject => ({ type: "message", role: "user", content });
const call = (id: string): JsonObject => ({ type: "function_call", call_id: id, name: "f", arguments: '{"a":1}' });
const output = (id: string): JsonObject => ({ type: "function_call_output", call_id: id, output: `of ${id}` });
const assistant = (text: string): JsonObject => ({
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text }],
});

function read(items: readonly JsonObject[], instructions?: string): readonly ChatMessage[] {
  const placed = items.map((item, i) => ({ item, path: `input[${i}]` }));
  return messagesOf(instructions, placed).map(({ message }) => message);
}

test("messagesOf() joins reasoning, text and parallel calls to one message in front of their results", () => {
  const reasoning = { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "think" }] };
  const items = [user("q"), reasoning, assistant("I look."), call("1"), call("2"), output("1"), output("2")];
  const made = (id: string): JsonObject => ({ id, type: "function", function: { name: "f", arguments: { a: 1 } } });
  assert.deepEqual(read(items), [
    { role: "user", content: "q" },
    { role: "assistant", content: "I look.", reasoning_content: "think", tool_calls: [made("1"), made("2")] },
    { role: "tool", content: "of 1", tool_call_id: "1" },
    { role: "tool", content: "of 2", tool_call_id: "2" },
  ]);
});

test("messagesOf() makes one system message of the instructions and all that lead", () => {
  const developer = (content: string): JsonObject => ({ type: "message", role: "developer", content });
  assert.deepEqual(read([developer("b"), developer("c"), user("q"), developer("d")], "a"), [
    { role: "system", content: "a\n\nb\n\nc" },
    { role: "user", content: "q" },
    { role: "developer", content: "d" },
  ]);
});

test("messagesOf() reads encoded reasoning, and none of other servers", () => {
  const reasoning = (encoded: string): JsonObject => ({ type: "reasoning", summary: [], encrypted_content: encoded });
  const [own] = read([reasoning(encodeText("größer")), assistant("a")]);
  assert.equal(own?.reasoning_content, "größer");
  const [others] = read([reasoning("gAAAA"), assistant("a")]);
  assert.deepEqual(others, { role: "assistant", content: "a" });
});

test("messagesOf() keeps messages apart that the assistant wrote apart, and drops reasoning without an answer", () => {
  const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "s" }] };
  assert.deepEqual(
    read([assistant("a"), assistant("b"), user("q"), reasoning, user("r")]).map(({ content }) => content),
    ["a", "b", "q", "r"],
  );
});

test("messagesOf() reads files of text and refuses others by name", () => {
  const file = (bytes: Buffer): JsonObject => ({
    type: "input_file",
    filename: "a.txt",
    file_data: `data:text/plain;base64,${bytes.toString("base64")}`,
  });
  assert.deepEqual(read([user([file(Buffer.from("été"))])]), [{ role: "user", content: "a.txt:\nété" }]);
  for (const part of [file(Buffer.from([0xff, 0xfe])), { type: "input_file", file_id: "file_1" }]) {
    assert.throws(
      () => read([user([part])]),
      (error: unknown) => error instanceof ApiError && error.param === "input[0].content[0]",
    );
  }
});
