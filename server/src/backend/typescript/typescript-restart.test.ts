/** Threads of TypeScript models that end under load: what they had not begun goes to the next thread, which starts at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { testSize } from "../../../../tests/support/long-tests.ts";
import { createRandom } from "../../../../tests/support/random.ts";
import { createTypescriptBackend } from "./typescript-backend.ts";

const CONFIG = `backend: "typescript"
input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] } ]`;

/** 1: answers, then blocks the thread, so that nothing that comes is begun, and ends it. 2: ends it at once. Others: echo. */
const MODEL = `
const blocked = new Int32Array(new SharedArrayBuffer(4));
export async function execute({ inputs }) {
  const [what] = inputs.X.data;
  if (what === 2) process.exit(3);
  if (what === 1) setTimeout(() => { Atomics.wait(blocked, 0, 0, 400); process.exit(4); }, 5);
  return { Y: inputs.X.data };
}`;

async function served() {
  const files = { "m/config.pbtxt": CONFIG, "m/1/model.js": MODEL };
  const repository = createTestRepository(files, [createTypescriptBackend()]);
  await repository.manager.load("m", {});
  const ask = async (value: number): Promise<number> => {
    const [answer] = await collect(repository.registry.lookUp("m", "").infer(fakeRequest([int32("X", [1], [value])])));
    return int32Values(answer?.outputs[0])[0] ?? -1;
  };
  return { ask, [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose]() };
}

test("a batch that the model has not begun goes to the next thread", async () => {
  await using model = await served();
  assert.equal(await model.ask(1), 1);
  // The thread stops reacting within 5 ms and ends 400 ms later: what it gets meanwhile it never sees.
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.deepEqual(await Promise.all([model.ask(7), model.ask(8)]), [7, 8]);
});

test("a batch that the model has begun fails once, and its thread's successor starts at once", async () => {
  await using model = await served();
  const random = createRandom(1);
  const points = testSize(5, 200);
  let failed = 0;
  for (let point = 0; point < points; point += 1) {
    await model.ask(9);
    const values = [10, 11, 12, 13].toSpliced(random.below(5), 0, 2);
    const answers = await Promise.allSettled(values.map((value) => model.ask(value)));
    for (const [i, value] of values.entries()) {
      const answer = answers[i];
      if (value === 2) {
        assert.equal(answer?.status, "rejected");
        assert.match(String(answer.reason), /Model thread 'm_0' is not healthy. It exited with code 3/);
        failed += 1;
      } else assert.deepEqual(answer, { status: "fulfilled", value });
    }
  }
  assert.equal(failed, points);
});
