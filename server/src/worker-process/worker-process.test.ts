import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { HelperProcess } from "./worker-process.ts";

const PROGRAM = fileURLToPath(new URL("echo-helper.test-support.ts", import.meta.url));

function createHelper(data: unknown): { helper: HelperProcess; logged: string[] } {
  const logged: string[] = [];
  const options = { program: PROGRAM, data, title: "the echo", log: (message: string) => void logged.push(message) };
  return { helper: new HelperProcess(options), logged };
}

test("`call()` brings bytes and values there and back, several at a time", async () => {
  const { helper } = createHelper({ name: "x" });
  const bodies = [Uint8Array.of(1, 2, 255), { text: "é", list: [1n, undefined] }, "third"];
  const answers = await Promise.all(bodies.map((body) => helper.call(body)));
  assert.deepEqual(
    answers,
    bodies.map((body) => ({ data: { name: "x" }, body })),
  );
  await helper.close();
});

test("`start()` rejects with the reason when the helper can not do its work", async () => {
  const { helper } = createHelper("unusable");
  await assert.rejects(helper.start(), { code: "unavailable", message: "no echo in this room" });
  await helper.close();
});

test("a refusal reaches the caller in its words, a fault only the log", async () => {
  const { helper, logged } = createHelper("x");
  await assert.rejects(helper.call("refuse"), { code: "invalid_argument", message: "not that" });
  await assert.rejects(helper.call("fault"), { code: "internal", message: "Internal error" });
  assert.match(logged.join("\n"), /the echo failed: TypeError: a secret of the helper/);
  assert.deepEqual(await helper.call("y"), { data: "x", body: "y" });
  await helper.close();
});

test("a death fails once what was asked, and a later call finds a new process", async () => {
  const { helper, logged } = createHelper("x");
  const waiting = helper.call("never");
  const dying = helper.call("die");
  await assert.rejects(waiting, { code: "unavailable", message: "the echo has ended and starts again; try again" });
  await assert.rejects(dying, { code: "unavailable" });
  assert.match(logged.join("\n"), /the echo ended: exit code 7/);
  let answer: unknown;
  while (answer === undefined) {
    answer = await helper.call("again").catch(() => undefined);
    await sleep(50);
  }
  assert.deepEqual(answer, { data: "x", body: "again" });
  await helper.close();
});

test("`close()` fails what is under way, and later calls at once", async () => {
  const { helper, logged } = createHelper("x");
  await helper.start();
  const waiting = assert.rejects(helper.call("never"), { code: "unavailable", message: "the echo has ended" });
  await new Promise((resolve) => setImmediate(resolve));
  await helper.close();
  await waiting;
  await assert.rejects(helper.call("late"), { code: "unavailable", message: "the echo has ended" });
  assert.deepEqual(logged, []);
});
