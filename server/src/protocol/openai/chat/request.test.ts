import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAT_REQUEST } from "./request.ts";

const MESSAGES = [{ role: "user", content: "hi" }];

test("a chat with a template of its own is refused, and one with variables is not", () => {
  const read = (more: object): unknown => CHAT_REQUEST.read({ model: "m", messages: MESSAGES, ...more }, "");
  assert.ok(read({ chat_template_kwargs: { a: 1 } }));
  assert.throws(() => read({ chat_template: "{{ 1 }}" }), /Templates belong to the model/);
});
