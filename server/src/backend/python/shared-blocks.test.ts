import assert from "node:assert/strict";
import { readdirSync, readlinkSync, statSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { DECOUPLED, load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, int32, int32Values, TestRequest } from "../../../../tests/fakes/python-models.ts";
import { SHARE_BYTES, SharedBlocks } from "./shared-blocks.ts";

const linux = { skip: process.platform === "linux" ? false : "shared blocks need Linux" };

test("`place()` leaves small data alone", linux, () => {
  using blocks = new SharedBlocks("test");
  assert.equal(blocks.place(new Uint8Array(SHARE_BYTES - 1)), undefined);
  assert.deepEqual(blocks.place(new Uint8Array(SHARE_BYTES)), { offset: 0, capacity: SHARE_BYTES });
});

test("`place()` uses a block again when it was released, and never before", linux, () => {
  using blocks = new SharedBlocks("test");
  const data = new Uint8Array(100_000);
  const first = blocks.place(data);
  const second = blocks.place(data);
  assert.notEqual(first?.offset, second?.offset);
  blocks.release(first?.offset ?? -1);
  assert.deepEqual([blocks.place(data), blocks.numUsed], [first, 2]);
});

test("`release()` throws when nothing lies there", linux, () => {
  using blocks = new SharedBlocks("test");
  assert.throws(() => blocks.release(4096), /no block at 4096 is in use/);
});

test("`place()` gives nothing when the process has gone", linux, () => {
  const blocks = new SharedBlocks("test");
  blocks[Symbol.dispose]();
  assert.equal(blocks.place(new Uint8Array(SHARE_BYTES)), undefined);
});

for (const elements of [8191, 8192, 100_000, 3_000_000]) {
  test(`tensors of ${elements * 4} bytes arrive whole in both directions`, options, async (t) => {
    const { instance } = await load(
      t,
      'def execute(self, requests):\n    return [answer(given(r, "IN") + 1) for r in requests]',
    );
    for (let round = 0; round < 5; round += 1) {
      const values = Int32Array.from({ length: elements }, (_, index) => index * round);
      const asked = await runOne(instance, new TestRequest([int32("IN", [...values])]));
      const got = int32Values(asked.responses[0]?.outputs[0]);
      assert.equal(got.length, elements, asked.errorText);
      assert.ok(got.every((value, index) => value === index * round + 1));
    }
  });
}

test("arrays that a model keeps stay as they were when more requests come", options, async (t) => {
  const { instance } = await load(
    t,
    `
def initialize(self, args):
    self.kept = []
def execute(self, requests):
    for request in requests:
        self.kept.append(given(request, "IN")[10:])
    intact = all((array == number).all() for number, array in enumerate(self.kept))
    return [answer([len(self.kept), int(intact)]) for _ in requests]
`,
  );
  for (let number = 0; number < 6; number += 1) {
    const big = new Array<number>(50_000).fill(number);
    const asked = await runOne(instance, new TestRequest([int32("IN", big)]));
    assert.deepEqual(int32Values(asked.responses[0]?.outputs[0]), [number + 1, 1]);
  }
});

test("`send()` has taken a big array over when it returns: the model may use it again", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    sender = requests[0].get_response_sender()
    array = np.zeros(100_000, dtype=np.int32)
    for number in range(20):
        array[:] = number
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
    DECOUPLED,
  );
  const asked = new TestRequest();
  await instance.execute(batchOf([asked]));
  await asked.ended;
  assert.equal(asked.responses.length, 21);
  for (const [number, { outputs }] of asked.responses.slice(0, 20).entries()) {
    assert.ok(int32Values(outputs[0]).every((value) => value === number));
  }
});

test("blocks of inputs come back from the process, also from one that keeps them for a while", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    kept = [given(r, "IN") for r in requests]
    threading.Timer(0.05, kept.clear).start()
    return [answer([len(kept)])]
`,
  );
  const data = new Uint8Array(1024 * 1024);
  for (let number = 0; number < 100; number++) {
    await runOne(instance, new TestRequest([{ name: "IN", datatype: "UINT8", shape: [data.length], data }]));
    if (number % 10 === 9) await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const file = readdirSync("/proc/self/fd")
    .map((fd) => `/proc/self/fd/${fd}`)
    .find((path) => linkOf(path).startsWith("/memfd:nereid-m_0_0 "));
  assert.ok(file !== undefined && statSync(file).size <= 32 * data.length, `${file && statSync(file).size} bytes`);
});

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ""; // the one of the listing
  }
}
