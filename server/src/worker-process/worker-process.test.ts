import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { WorkerProcess } from "./worker-process.ts";

const PROGRAM = fileURLToPath(new URL("echo-worker.test-support.ts", import.meta.url));

function createWorker(data: unknown): { worker: WorkerProcess; logged: string[] } {
  const logged: string[] = [];
  const options = { program: PROGRAM, data, title: "the echo", log: (message: string) => void logged.push(message) };
  return { worker: new WorkerProcess(options), logged };
}

test("`call()` brings bytes and values there and back, several at a time", async () => {
  const { worker } = createWorker({ name: "x" });
  const bodies = [Uint8Array.of(1, 2, 255), { text: "é", list: [1n, undefined] }, "third"];
  const answers = await Promise.all(bodies.map((body) => worker.call(body)));
  assert.deepEqual(
    answers,
    bodies.map((body) => ({ data: { name: "x" }, body })),
  );
  await worker.close();
});

test("`start()` rejects with the reason when the worker can not do its work", async () => {
  const { worker } = createWorker("unusable");
  await assert.rejects(worker.start(), { code: "unavailable", message: "no echo in this room" });
  await worker.close();
});

test("a refusal reaches the caller in its words, a fault only the log", async () => {
  const { worker, logged } = createWorker("x");
  await assert.rejects(worker.call("refuse"), { code: "invalid_argument", message: "not that" });
  await assert.rejects(worker.call("fault"), { code: "internal", message: "Internal error" });
  assert.match(logged.join("\n"), /the echo failed: TypeError: a secret of the worker/);
  assert.deepEqual(await worker.call("y"), { data: "x", body: "y" });
  await worker.close();
});

test("a death fails once what was asked, and a later call finds a new process", async () => {
  const { worker, logged } = createWorker("x");
  const waiting = worker.call("never");
  const dying = worker.call("die");
  await assert.rejects(waiting, { code: "unavailable", message: "the echo has ended and starts again; try again" });
  await assert.rejects(dying, { code: "unavailable" });
  assert.match(logged.join("\n"), /the echo ended: exit code 7/);
  let answer: unknown;
  while (answer === undefined) {
    answer = await worker.call("again").catch(() => undefined);
    await sleep(50);
  }
  assert.deepEqual(answer, { data: "x", body: "again" });
  await worker.close();
});

test("`close()` fails what is under way, and later calls at once", async () => {
  const { worker, logged } = createWorker("x");
  await worker.start();
  const waiting = assert.rejects(worker.call("never"), { code: "unavailable", message: "the echo has ended" });
  await new Promise((resolve) => setImmediate(resolve));
  await worker.close();
  await waiting;
  await assert.rejects(worker.call("late"), { code: "unavailable", message: "the echo has ended" });
  assert.deepEqual(logged, []);
});
