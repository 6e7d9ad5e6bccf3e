import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { backend, options } from "../../../../tests/fakes/python-fixture.ts";
import {
  batchOf,
  EMPTY_CONFIG,
  int32,
  int32Values,
  sourceOf,
  TestRequest,
  type TestSource,
  until,
} from "../../../../tests/fakes/python-models.ts";
import type { ModelInstance, ModelSource } from "../backend.ts";

/** Answers with its own process id; an input IN = 1 makes it end, = 2 makes it sleep. */
const MORTAL = `
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            what = int(request.inputs()[0].as_numpy()[0])
            if what == 1:
                os._exit(7)
            if what == 2:
                time.sleep(600)
        pid = pb_utils.Tensor("OUT", np.array([os.getpid()], dtype=np.int32))
        return [pb_utils.InferenceResponse([pid]) for _ in requests]
    def finalize(self):
        open(os.path.join(pb_utils.get_model_dir(), "finalized"), "w").close()
`;

async function load(
  code: string,
  changes: Partial<ModelSource> = {},
): Promise<{ instance: ModelInstance; source: TestSource }> {
  const source = await sourceOf(code, changes);
  const model = await backend.load(source);
  return { instance: await model.createInstance({ name: "m_0_0", kind: "KIND_CPU", deviceId: 0 }), source };
}

function request(what: number): TestRequest {
  return new TestRequest([int32("IN", [what])]);
}

async function pidOf(instance: ModelInstance): Promise<number> {
  const asked = request(0);
  await instance.execute(batchOf([asked]));
  return int32Values(asked.responses[0]?.outputs[0])[0] ?? 0;
}

/** Kills a process of this test and nothing else: a wrong number must not end a stranger. */
function killStub(pid: number): void {
  const parent = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[1];
  const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
  assert.equal(parent, String(process.pid), `process ${pid} is no child of this test`);
  assert.ok(command.includes("stub.py\0m_0_0"), `process ${pid} is no stub: ${command}`);
  process.kill(pid, "SIGKILL");
}

function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
}

test("`execute()` fails what had started once each when the process exits", options, async (t) => {
  const { instance, source } = await load(MORTAL);
  t.after(() => instance.close());
  const requests = [request(0), request(1), request(0)];
  const expected = "Stub process 'm_0_0' is not healthy. It exited with code 7";
  await assert.rejects(async () => instance.execute(batchOf(requests)), { code: "internal", message: expected });
  assert.deepEqual(
    requests.map(({ errors, responses }) => [errors.length, errors[0]?.message, responses.length]),
    requests.map(() => [1, expected, 0]),
  );
  assert.equal(instance.isReady(), false);
  assert.ok(source.lines.some(({ level, message }) => level === "error" && message.startsWith(expected)));
});

test("`execute()` works again in a new process when the old one was killed under load", options, async (t) => {
  const { instance } = await load(MORTAL);
  t.after(() => instance.close());
  const pid = await pidOf(instance);
  const asleep = request(2);
  const execution = instance.execute(batchOf([asleep]));
  killStub(pid);
  await assert.rejects(async () => execution, {
    message: "Stub process 'm_0_0' is not healthy. It was ended by SIGKILL",
  });
  assert.equal(asleep.errors.length, 1);
  assert.equal(instance.isReady(), false);
  const next = await pidOf(instance); // waits for the restart
  assert.notEqual(next, pid);
  assert.equal(instance.isReady(), true);
});

test("no request is lost when the process is killed again and again", options, async (t) => {
  const { instance } = await load(MORTAL);
  t.after(() => instance.close());
  const requests: TestRequest[] = [];
  let kills = 0;
  for (let round = 0; round < 60; round += 1) {
    const asked = request(0);
    requests.push(asked);
    await Promise.resolve(instance.execute(batchOf([asked]))).catch(
      (error: Error) => asked.errors.length || asked.fail(error as never),
    );
    const pid = int32Values(asked.responses[0]?.outputs[0])[0];
    if (round % 20 === 10 && pid !== undefined) {
      kills += 1;
      killStub(pid);
    }
  }
  assert.equal(kills, 3);
  assert.ok(requests.every(({ responses, errors }) => responses.length + errors.length === 1));
  assert.ok(requests.filter(({ errors }) => errors.length > 0).length <= kills);
});

test("responses that the process sent arrive when it dies right after", options, async (t) => {
  const code = `
import os
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        requests[0].get_response_sender().send(pb_utils.InferenceResponse([]))
        os._exit(0)
`;
  const { instance } = await load(code, { config: { ...EMPTY_CONFIG, model_transaction_policy: { decoupled: true } } });
  t.after(() => instance.close());
  const asked = request(0);
  await assert.rejects(async () => instance.execute(batchOf([asked])), /It exited with code 0/);
  assert.deepEqual([asked.responses.length, asked.errors.length], [1, 1]);
});

test("`close()` lets the model finalize and leaves no process", options, async () => {
  const { instance, source } = await load(MORTAL);
  const pid = await pidOf(instance);
  await instance.close();
  assert.ok(existsSync(join(source.versionFolder, "finalized")));
  assert.equal(isRunning(pid), false);
  assert.equal(instance.isReady(), false);
});

test("`close()` ends the process when `finalize` does not", options, async () => {
  const stubborn = MORTAL.replace("open(os", "time.sleep(600) or open(os");
  const { instance } = await load(stubborn, { settings: new Map([["stub-timeout-seconds", "2"]]) });
  const pid = await pidOf(instance);
  await instance.close();
  assert.equal(isRunning(pid), false);
});

test("`close()` settles when the process is dead and about to restart", options, async () => {
  const { instance } = await load(MORTAL);
  await assert.rejects(async () => instance.execute(batchOf([request(1)])));
  await instance.close();
  assert.equal(instance.isReady(), false);
  await assert.rejects(async () => instance.execute(batchOf([request(0)])), /is not healthy/);
});

test("processes that a model started end when it does", options, async (t) => {
  const code = `
import os, subprocess
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.child = subprocess.Popen(["sleep", "600"])
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([self.child.pid], dtype=np.int32))])]
`;
  const { instance } = await load(code);
  t.after(() => instance.close());
  const child = await pidOf(instance);
  assert.equal(isRunning(child), true);
  await instance.close();
  await until(() => !isRunning(child));
});
