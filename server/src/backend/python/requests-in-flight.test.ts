import assert from "node:assert/strict";
import { test } from "node:test";
import { DECOUPLED, load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, int32, int32Values, TestRequest, until } from "../../../../tests/fakes/python-models.ts";

test("a decoupled model responds from a thread when `execute` has returned", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    for request in requests:
        threading.Thread(target=self.respond, args=(request.get_response_sender(), given(request, "IN"))).start()
def respond(self, sender, values):
    for index, value in enumerate(values):
        sender.send(answer([value]) if value else pb_utils.InferenceResponse(error=pb_utils.TritonError("zero")))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
    DECOUPLED,
  );
  const request = await runOne(instance, new TestRequest([int32("IN", [5, 0, 7])]));
  assert.deepEqual(
    request.responses.map(({ final, error, outputs }) => [final, error?.message, ...int32Values(outputs[0])]),
    [
      [false, undefined, 5],
      [false, "zero"],
      [false, undefined, 7],
      [true, undefined],
    ],
  );
  assert.deepEqual(request.errors, []);
});

test("a sender waits when the client takes nothing, and goes on when it does", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    sender = requests[0].get_response_sender()
    for value in range(500):
        sender.send(answer([value]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
    DECOUPLED,
  );
  const request = new TestRequest();
  let take = (): void => undefined;
  request.drain = new Promise((resolve) => {
    take = resolve;
  });
  const execution = instance.execute(batchOf([request]));
  await until(() => request.responses.length >= 128);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(request.responses.length, 128);
  take();
  await Promise.all([execution, request.ended]);
  assert.equal(request.responses.length, 501);
});

const SENDER_RULES: readonly (readonly [string, string, RegExp])[] = [
  ["it sends after the end", "s.send(answer([1]), flags=1); s.send(answer([1]))", /Response sender has been closed\./],
  [
    "it sends nothing without the flag",
    "s.send()",
    /Inference Response object must be provided when the response flags is set to zero\./,
  ],
  ["it uses another flag", "s.send(answer([1]), flags=2)", /Unsupported flag provided\./],
];
for (const [what, body, expected] of SENDER_RULES) {
  test(`\`send()\` raises when ${what}`, options, async (t) => {
    const { instance } = await load(
      t,
      `
def execute(self, requests):
    s = requests[0].get_response_sender()
    try:
        ${body}
    except pb_utils.TritonModelException as error:
        print(error, file=sys.stderr)
    try:
        s.send(flags=1)
    except pb_utils.TritonModelException:
        pass
`,
      DECOUPLED,
    ).then(async (loaded) => {
      await runOne(loaded.instance, new TestRequest());
      await until(() => loaded.source.lines.some(({ message }) => expected.test(message)));
      return loaded;
    });
    assert.equal(instance.isReady(), true);
  });
}

for (const decoupled of [true, false]) {
  test(`a request fails when a ${decoupled ? "decoupled " : ""}model forgets to answer it`, options, async (t) => {
    const body = `def execute(self, requests):\n    return ${decoupled ? "None" : "[None] * len(requests)"}`;
    const { instance } = await load(t, body, decoupled ? DECOUPLED : {});
    const request = await runOne(instance, new TestRequest());
    assert.match(request.errorText ?? "", /dropped a request without its final response/);
  });
}

test("a model that is not decoupled answers through its sender when it returns None", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    threading.Timer(0.05, requests[1].get_response_sender().send, (answer([4]),)).start()
    return [answer([3]), None]
`,
  );
  const requests = [new TestRequest(), new TestRequest()];
  await instance.execute(batchOf(requests)); // settles with the last answer
  assert.deepEqual(
    requests.map(({ responses }) => responses.map(({ final, outputs }) => [final, ...int32Values(outputs[0])])),
    [[[true, 3]], [[true, 4]]],
  );
});

test("coroutines of a decoupled model overlap when several batches run", options, async (t) => {
  const { instance } = await load(
    t,
    `
def initialize(self, args):
    self.event = None
async def execute(self, requests):
    sender = requests[0].get_response_sender()
    if self.event is None:
        self.event = asyncio.Event()
        await self.event.wait()
    else:
        self.event.set()
    sender.send(answer([1]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
    DECOUPLED,
  );
  const requests = [new TestRequest(), new TestRequest()];
  for (const request of requests) await instance.execute(batchOf([request]));
  await Promise.all(requests.map(({ ended }) => ended));
  assert.deepEqual(
    requests.map(({ responses }) => responses.length),
    [1, 1],
  );
});

test("a coroutine's exception fails its requests when the model is decoupled", options, async (t) => {
  const body = 'async def execute(self, requests):\n    await asyncio.sleep(0)\n    raise ValueError("late")';
  const { instance } = await load(t, body, DECOUPLED);
  const request = await runOne(instance, new TestRequest());
  assert.match(
    request.errorText ?? "",
    /^Failed to process the request\(s\) for model 'm_0_0', message: ValueError: late/,
  );
});

test("`execute()` awaits a coroutine when the model is not decoupled", options, async (t) => {
  const { instance } = await load(
    t,
    "async def execute(self, requests):\n    await asyncio.sleep(0.01)\n    return [answer([3])]",
  );
  const request = await runOne(instance, new TestRequest());
  assert.deepEqual(int32Values(request.responses[0]?.outputs[0]), [3]);
});

test("`is_cancelled()` turns true when the client goes away", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    while not requests[0].is_cancelled():
        time.sleep(0.005)
    return [pb_utils.InferenceResponse(error=pb_utils.TritonError("gone", pb_utils.TritonError.CANCELLED))]
`,
  );
  const request = new TestRequest();
  const execution = instance.execute(batchOf([request]));
  request.abort.abort();
  await execution;
  assert.deepEqual([request.errors[0]?.code, request.errorText], ["cancelled", "gone"]);
});
