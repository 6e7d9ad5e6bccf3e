import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { backend, DECOUPLED, type Loaded, load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, int32Values, sourceOf, TestRequest } from "../../../../tests/fakes/python-models.ts";
import { SharedMemoryObject } from "../../../../tests/fakes/shared-memory-object.ts";
import type { Tensor } from "../../core/tensor.ts";
import { mapSharedMemory } from "../../native/posix-memory.ts";
import { locateInClient, MAP_BYTES } from "./client-region.ts";

const linux = { skip: process.platform === "linux" ? false : "shared memory needs Linux" };
const onLinux = { ...options, skip: linux.skip || options.skip };
const PAGE_BYTES = 4096;
/** Answers 1 for each input that is mapped from a client's object, else 0. */
const LOOK = `
def mapped(self, request):
    address = given(request, "IN").__array_interface__["data"][0]
    lines = [line.split() for line in open("/proc/self/maps") if "nereid_test_" in line]
    return int(any(int(a, 16) <= address < int(b, 16) for a, b in (line[0].split("-") for line in lines)))
`;
const RETURN = `${LOOK}
def execute(self, requests):
    return [answer([self.mapped(r)]) for r in requests]`;
const SEND = `${LOOK}
def execute(self, requests):
    for r in requests:
        r.get_response_sender().send(answer([self.mapped(r)]), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)`;

function input(data: Uint8Array): Tensor {
  return { name: "IN", datatype: "INT32", shape: [data.length / 4], data };
}

/** An object filled with ones, mapped as a registered region is. */
function mapOnes(numBytes: number): { bytes: Uint8Array } & Disposable {
  const object = new SharedMemoryObject(new Uint8Array(new Int32Array(numBytes / 4).fill(1).buffer));
  const mapping = mapSharedMemory(object.key, 0, numBytes);
  return {
    bytes: mapping.bytes(),
    [Symbol.dispose](): void {
      mapping.close();
      object[Symbol.dispose]();
    },
  };
}

test("`locateInClient()` names large, aligned data of an object, counted from where the object begins", linux, () => {
  using object = new SharedMemoryObject(2 * MAP_BYTES);
  const mapping = mapSharedMemory(object.key, PAGE_BYTES, MAP_BYTES + PAGE_BYTES);
  const bytes = mapping.bytes();
  assert.equal(locateInClient(bytes.subarray(64))?.offset, PAGE_BYTES + 64);
  assert.equal(locateInClient(bytes.subarray(4)), undefined);
  assert.equal(locateInClient(bytes.subarray(0, MAP_BYTES - 1)), undefined);
  assert.equal(locateInClient(new Uint8Array(MAP_BYTES)), undefined);
  mapping.close();
  assert.equal(locateInClient(bytes), undefined);
});

const SEEN: readonly (readonly [string, string, Partial<Loaded["source"]>, number, readonly number[]])[] = [
  ["one request that is returned", RETURN, {}, 1, [1]],
  ["one request that is sent", SEND, {}, 1, [1]],
  ["two requests in a batch", RETURN, {}, 2, [0, 0]],
  ["a decoupled model", SEND, DECOUPLED, 1, [0]],
];
for (const [what, code, changes, count, expected] of SEEN) {
  test(`inputs of ${what} are ${expected.includes(1) ? "mapped" : "copied"}`, onLinux, async (t) => {
    const { instance } = await load(t, code, changes);
    using memory = mapOnes(MAP_BYTES);
    const requests = Array.from({ length: count }, () => new TestRequest([input(memory.bytes)]));
    await instance.execute(batchOf(requests));
    await Promise.all(requests.map(({ ended }) => ended));
    const answers = requests.map(({ responses, errorText }) => int32Values(responses[0]?.outputs[0])[0] ?? errorText);
    assert.deepEqual(answers, expected);
  });
}

test("inputs are read where there is no numpy", onLinux, async (t) => {
  const code = `
import sys
sys.modules["numpy"] = None
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        data = requests[0].inputs()[0].as_bytes()
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_bytes("OUT", "INT32", [2], data[:4] + data[-4:])])]`;
  const model = await backend.load(await sourceOf(code));
  const instance = await model.createInstance({ name: "m_0_0", kind: "KIND_CPU", deviceId: 0 });
  t.after(() => instance.close());
  using memory = mapOnes(MAP_BYTES + 64);
  const asked = await runOne(instance, new TestRequest([input(memory.bytes.subarray(64))]));
  assert.deepEqual([...int32Values(asked.responses[0]?.outputs[0])], [1, 1], asked.errorText);
});
