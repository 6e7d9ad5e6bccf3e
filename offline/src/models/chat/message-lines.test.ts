import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageLines } from "./message-lines.ts";

for (const [title, lines, expected] of [
  ["a line alone", ["hello"], ["hello"]],
  ["lines that end in a backslash", ["a\\", "b\\", "c"], [undefined, undefined, "a\nb\nc"]],
  ["lines between quotes", ['"""', "a", "", 'b"""'], [undefined, undefined, undefined, "a\n\nb"]],
  ["quotes on lines of their own", ['"""', "a", '"""'], [undefined, undefined, "a"]],
  ["quotes around one line", ['"""a"""', "b"], ["a", "b"]],
  ["a backslash between quotes", ['"""a\\', 'b"""'], [undefined, "a\\\nb"]],
  ["quotes inside a line", ['say """', "b"], ['say """', "b"]],
] as const) {
  test(`MessageLines joins ${title}`, () => {
    const message = new MessageLines();
    assert.deepEqual(
      lines.map((line) => message.push(line)),
      expected,
    );
    assert.equal(message.isOpen, false);
  });
}

test("MessageLines forgets what has begun", () => {
  const message = new MessageLines();
  message.push('"""a');
  assert.equal(message.isOpen, true);
  message.clear();
  assert.equal(message.push("b"), "b");
});
