import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedObjects } from "./shared-objects.ts";

test("SharedObjects gives all who ask for a key one object, made once", async () => {
  const shared = new SharedObjects<{ readonly id: number }>();
  let made = 0;
  const make = async (): Promise<{ readonly id: number }> => ({ id: ++made });
  const [first, second] = await Promise.all([shared.get("a", make), shared.get("a", make)]);
  const third = await shared.get("a", make);
  assert.ok(first === second && second === third);
  assert.deepEqual(await shared.get("b", make), { id: 2 });
});

test("SharedObjects tries again after a failure", async () => {
  const shared = new SharedObjects<object>();
  await assert.rejects(
    shared.get("a", () => Promise.reject(new Error("no file"))),
    /no file/,
  );
  const made = {};
  assert.equal(await shared.get("a", async () => made), made);
});
