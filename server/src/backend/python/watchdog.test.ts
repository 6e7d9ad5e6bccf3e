import assert from "node:assert/strict";
import { test } from "node:test";
import { load, options } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, TestRequest } from "../../../../tests/fakes/python-models.ts";
import { processState } from "./watchdog.ts";

const STATES = [
  ["12 (python3) S 1 12", "S"],
  ["12 (a ) T (b) T 1 12", "T"],
  ["", ""],
] as const;
for (const [stat, expected] of STATES) {
  test(`\`processState()\` reads '${expected}' out of '${stat}'`, () => assert.equal(processState(stat), expected));
}

test("a process that stops itself is replaced, and its request fails once", options, async (t) => {
  const { instance } = await load(t, "def execute(self, requests):\n    os.kill(os.getpid(), 19)");
  const request = new TestRequest();
  await assert.rejects(
    async () => instance.execute(batchOf([request])),
    /It was stopped by a signal and did not go on/,
  );
  assert.deepEqual([request.errors.length, request.responses.length], [1, 0]);
});

test("a process that hangs in native code is replaced when its time is over", options, async (t) => {
  // PyDLL keeps the interpreter's lock during the call, as faulty extensions do.
  const code = "def execute(self, requests):\n    import ctypes\n    ctypes.PyDLL(None).sleep(600)";
  const settings = new Map([["hang-timeout-seconds", "1"]]);
  const { instance } = await load(t, code, { settings });
  const request = new TestRequest();
  await assert.rejects(async () => instance.execute(batchOf([request])), /It gave no sign of life for 1000 ms/);
  assert.equal(request.errors.length, 1);
});

test("a process that computes for long in Python is left alone", options, async (t) => {
  const code = `
def execute(self, requests):
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        pass
    return [answer([1]) for _ in requests]
`;
  const { instance } = await load(t, code, { settings: new Map([["hang-timeout-seconds", "1"]]) });
  const request = new TestRequest();
  await instance.execute(batchOf([request]));
  assert.equal(request.responses.length, 1);
});
