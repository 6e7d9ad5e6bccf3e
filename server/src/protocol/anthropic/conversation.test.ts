import assert from "node:assert/strict";
import { test } from "node:test";
import { continuesLast, messagesOf, readSystem, TURNS } from "./conversation.ts";

test("messagesOf() makes results messages of their own, with the names of their calls", () => {
  const turns = TURNS.read(
    [
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "f", input: { a: 1 } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "one" }] },
      { role: "user", content: "two" },
    ],
    "messages",
  );
  assert.deepEqual(
    messagesOf(undefined, turns).map(({ message }) => message),
    [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "t1", type: "function", function: { name: "f", arguments: { a: 1 } } }],
      },
      { role: "tool", tool_call_id: "t1", content: "one", name: "f" },
      { role: "user", content: "two" },
    ],
  );
});

test("messagesOf() puts images of results in front of the user's", () => {
  const image = (data: string) => ({ type: "image", source: { type: "base64", media_type: "image/png", data } });
  const content = [image("BBBB"), { type: "tool_result", tool_use_id: "t", content: [image("AAAA")] }];
  const [result, user] = messagesOf(undefined, TURNS.read([{ role: "user", content }], "messages"));
  assert.equal(result?.message.role, "tool");
  assert.deepEqual(user?.images, [Buffer.from("AAAA", "base64"), Buffer.from("BBBB", "base64")]);
  assert.deepEqual(user?.message.content, [{ type: "image" }, { type: "image" }]);
});

test("readSystem() drops the billing line, which differs in each request", () => {
  const blocks = [
    { type: "text", text: "x-anthropic-billing-header: cc_version=1" },
    { type: "text", text: "Be brief." },
  ];
  assert.equal(readSystem(blocks, "system"), "Be brief.");
});

test("continuesLast() holds for text of the assistant at the end, and not for a call", () => {
  const turnsOf = (content: unknown) => TURNS.read([{ role: "assistant", content }], "messages");
  assert.equal(continuesLast(turnsOf("one")), true);
  assert.equal(continuesLast(turnsOf([{ type: "tool_use", id: "t", name: "f", input: {} }])), false);
});
