import assert from "node:assert/strict";
import { readdirSync, readlinkSync, writeSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { TestRequest } from "../../../../tests/fakes/python-models.ts";
import { AnswerMemory } from "./answer-memory.ts";

const linux = { skip: process.platform !== "linux" && "needs Linux" };
const PAGE = 4096;

/** Memory in which a process has put `text` at an offset. */
function withAnswer(offset: number, text: string): { memory: AnswerMemory; flushes: number[] } {
  const flushes: number[] = [];
  const memory = new AnswerMemory("test", () => flushes.push(1));
  writeSync(memory.descriptor ?? -1, text, offset);
  return { memory, flushes };
}

test("`take()` shows what the process has put there until it is given back, which happens once", linux, () => {
  const { memory } = withAnswer(PAGE, "answer");
  using _ = memory;
  const { data, release } = memory.take(PAGE, PAGE, 6);
  assert.equal(Buffer.from(data).toString(), "answer");
  assert.throws(() => memory.take(PAGE, PAGE, 6), /^RangeError: no answer of 6 bytes can lie at 4096$/);
  assert.deepEqual([memory.numLeased, memory.takeReturned()], [1, []]);
  release();
  release();
  assert.deepEqual([memory.numLeased, memory.takeReturned(), memory.takeReturned()], [0, [PAGE], []]);
  assert.equal(memory.take(PAGE, PAGE, 6).data.buffer, data.buffer, "the view is used again");
});

for (const [offset, capacity, size] of [
  [-PAGE, PAGE, 1],
  [0, PAGE, PAGE + 1],
  [0, PAGE, -1],
  [2 ** 28 - PAGE, 2 * PAGE, 1],
  [Number.NaN, PAGE, 1],
  [2 ** 60, PAGE, 1],
] as const) {
  test(`\`take()\` refuses ${size} bytes in ${capacity} at ${offset}`, linux, () => {
    using memory = new AnswerMemory("test", () => undefined);
    assert.throws(() => memory.take(offset, capacity, size), RangeError);
  });
}

test("places come back in time when no message takes them along", linux, async () => {
  const { memory, flushes } = withAnswer(0, "x");
  using _ = memory;
  memory.take(0, PAGE, 1).release();
  while (flushes.length === 0) await sleep(5);
  assert.deepEqual(memory.takeReturned(), [0]);
});

test("an answer outlives its process until it is given back", linux, () => {
  const { memory } = withAnswer(0, "last words");
  const { data, release } = memory.take(0, PAGE, 10);
  memory[Symbol.dispose]();
  assert.equal(Buffer.from(data).toString(), "last words");
  assert.throws(() => memory.take(PAGE, PAGE, 1), RangeError);
  release();
  assert.deepEqual([...data], Array(10).fill(0), "its memory is the system's again");
});

test("an answer that nobody looks at any more is given back by the garbage collector", linux, async () => {
  const { memory } = withAnswer(0, "forgotten");
  using _ = memory;
  memory.take(0, PAGE, 9).data.subarray(1, 2);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  while (memory.numLeased > 0) {
    collect();
    await sleep(5);
  }
  assert.deepEqual(memory.takeReturned(), [0]);
});

const IDENTITY = `
def execute(self, requests):
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", given(r, "IN"))]) for r in requests]
`;

function large(value: number): TestRequest {
  const data = new Uint8Array(1024 * 1024).fill(value);
  return new TestRequest([{ name: "IN", datatype: "UINT8", shape: [data.length], data }]);
}

/** Memory files of this process, by name. */
function memoryFiles(): string[] {
  const links = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return []; // the one of this listing
    }
  });
  return links.filter((link) => link.startsWith("/memfd:nereid-m_"));
}

test("a model's memory goes with it, when its answers have been given back", { ...options, ...linux }, async (t) => {
  const { instance } = await load(t, IDENTITY);
  const kept = await runOne(instance, large(1));
  const other = await runOne(instance, large(2));
  other.responses[0]?.release?.();
  assert.equal(memoryFiles().length, 2);
  await instance.close();
  assert.equal(memoryFiles().length, 1, "the inputs' file is gone");
  assert.ok(kept.responses[0]?.outputs[0]?.data.every((byte) => byte === 1));
  kept.responses[0]?.release?.();
  assert.deepEqual(memoryFiles(), []);
});

test("answers arrive when nobody gives any back: they take another way once there is no room", {
  ...options,
  ...linux,
}, async (t) => {
  const { instance } = await load(t, IDENTITY);
  const kept: TestRequest[] = [];
  for (let number = 0; number < 300; number++) kept.push(await runOne(instance, large(number % 251)));
  for (const [number, { responses }] of kept.entries()) {
    const data = responses[0]?.outputs[0]?.data;
    assert.deepEqual([data?.length, data?.[0], data?.at(-1)], [1024 * 1024, number % 251, number % 251]);
  }
});
