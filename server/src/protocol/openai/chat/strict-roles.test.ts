/** Conversations for templates with strict rules of roles. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { withStrictRoles } from "./strict-roles.ts";

const says = (role: string, content: string): { role: string; content: string } => ({ role, content });

test("withStrictRoles() joins neighbours of one role, and lets users say what the system says in between", () => {
  const messages = [
    says("system", "a"),
    says("developer", "b"),
    says("user", "c"),
    says("user", "d"),
    says("assistant", "e"),
    says("developer", "f"),
    says("user", "g"),
  ];
  assert.deepEqual(withStrictRoles(messages), [
    says("system", "a\n\nb"),
    says("user", "c\n\nd"),
    says("assistant", "e"),
    says("user", "f\n\ng"),
  ]);
});

test("withStrictRoles() keeps images in their order, and results of tools apart", () => {
  const call = { id: "1", type: "function" as const, function: { name: "f", arguments: {} } };
  const results = [
    { role: "assistant", content: null, tool_calls: [call, { ...call, id: "2" }] },
    { role: "tool", content: "r", tool_call_id: "1" },
    { role: "tool", content: "s", tool_call_id: "2" },
  ];
  const image = { role: "user", content: [{ type: "image" as const }] };
  assert.deepEqual(withStrictRoles([image, says("user", "x"), ...results]), [
    { role: "user", content: [{ type: "image" }, { type: "text", text: "x" }] },
    ...results,
  ]);
});

test("withStrictRoles() has nothing to change where roles take turns", () => {
  assert.equal(withStrictRoles([says("system", "a"), says("user", "b"), says("assistant", "c")]), undefined);
});
