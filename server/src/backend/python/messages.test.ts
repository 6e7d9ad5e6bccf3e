import assert from "node:assert/strict";
import { test } from "node:test";
import { load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, bytes, int32, int32Values, TestRequest, textOf } from "../../../../tests/fakes/python-models.ts";
import type { InferRequest, ParameterValue } from "../../core/infer-request.ts";

const DOUBLE = `
def execute(self, requests):
    return [answer(given(r, "IN") * 2) for r in requests]
`;

test("`execute()` answers each request in order when a batch has several", options, async (t) => {
  const { instance } = await load(t, DOUBLE);
  const requests = [1, 2, 3].map((value) => new TestRequest([int32("IN", [value, -value])]));
  const batch = batchOf(requests);
  await instance.execute(batch);
  assert.deepEqual(
    requests.map((request) => int32Values(request.responses[0]?.outputs[0])),
    [
      [2, -2],
      [4, -4],
      [6, -6],
    ],
  );
  assert.deepEqual(batch.marks, ["start", "end"]);
  assert.ok(requests.every(({ responses }) => responses.length === 1 && responses[0]?.final === true));
});

test("`execute()` carries tensors of megabytes when data is large", options, async (t) => {
  const { instance } = await load(t, DOUBLE);
  const values = Array.from({ length: 1_000_000 }, (_, index) => index);
  const request = await runOne(instance, new TestRequest([int32("IN", values)]));
  assert.deepEqual(
    int32Values(request.responses[0]?.outputs[0]),
    values.map((value) => value * 2),
  );
});

test("`execute()` shows the model all fields of a request", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    return [text(json.dumps([r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters()),
        sorted(r.requested_output_names()), [t.name() for t in r.inputs()], r.is_cancelled()])) for r in requests]
`,
  );
  const parameters = new Map<string, ParameterValue>([
    ["big", 9223372036854775807n],
    ["d", { double: 5 }],
    ["s", "zażółć"],
  ]);
  const sequence = { id: 18446744073709551615n, start: true, end: true };
  const changes: Partial<InferRequest> = { id: "r1", parameters, sequence, timeoutUs: 5000 };
  const request = await runOne(instance, new TestRequest([int32("IN", [1])], changes, ["OUT", "B"]));
  assert.equal(
    textOf(request.responses[0]?.outputs[0]),
    '["r1", 18446744073709551615, 3, 5000, {"big": 9223372036854775807, "d": 5.0, "s": "za\\u017c\\u00f3\\u0142\\u0107"}, ["B", "OUT"], ["IN"], false]',
  );
});

const DTYPES: readonly (readonly [string, string])[] = [
  ["np.array([True, False])", "BOOL 0100"],
  ["np.array([1, 255], dtype=np.uint8)", "UINT8 01ff"],
  ["np.array([-2], dtype=np.int64)", "INT64 feffffffffffffff"],
  ["np.array([1.5], dtype=np.float16)", "FP16 003e"],
  ["np.array([[1], [2]], dtype=np.int16).T", "INT16 01000200"],
  ["np.array(7, dtype=np.uint32)", "UINT32 07000000"],
  ["np.zeros([0, 3], dtype=np.float64)", "FP64 "],
  ["np.array(['ab', b'\\\\xff'], dtype=np.object_)", "BYTES 02000000616201000000ff"],
];
for (const [expression, expected] of DTYPES) {
  test(`\`Tensor\` has the layout of the protocol when it is made of ${expression}`, options, async (t) => {
    const { instance } = await load(
      t,
      `
def execute(self, requests):
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", ${expression.replaceAll("\\\\", "\\")})])]
`,
    );
    const [output] = (await runOne(instance, new TestRequest())).responses[0]?.outputs ?? [];
    assert.equal(`${output?.datatype} ${Buffer.from(output?.data ?? []).toString("hex")}`, expected);
  });
}

test("`as_numpy()` gives object arrays of bytes when a tensor is BYTES", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    array = given(requests[0], "TEXT")
    return [text(repr([array.dtype, array.shape, array.tolist()]))]
`,
  );
  const request = await runOne(instance, new TestRequest([bytes("TEXT", "a\0b")]));
  assert.equal(textOf(request.responses[0]?.outputs[0]), "[dtype('O'), (1,), [b'a\\x00b']]");
});

test("`from_bytes()` and `as_bytes()` carry BF16 when numpy has no such type", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    tensor = requests[0].inputs()[0]
    assert tensor.triton_dtype() == 14 and tensor.shape() == [2]
    return [pb_utils.InferenceResponse([pb_utils.Tensor.from_bytes("OUT", "TYPE_BF16", [2], tensor.as_bytes())])]
`,
  );
  const data = Uint8Array.of(0x80, 0x3f, 0x00, 0x40);
  const request = await runOne(instance, new TestRequest([{ name: "IN", datatype: "BF16", shape: [2], data }]));
  const output = request.responses[0]?.outputs[0];
  assert.deepEqual([output?.datatype, [...(output?.data ?? [])]], ["BF16", [...data]]);
});

test("`execute()` drops outputs when nobody asked for them", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    tensor = lambda name: pb_utils.Tensor(name, np.array([1], dtype=np.int32))
    return [pb_utils.InferenceResponse([tensor("A"), tensor("OUT")], parameters={"n": 1, "b": True, "s": "x"})]
`,
  );
  const [response] = (await runOne(instance, new TestRequest())).responses;
  assert.deepEqual(
    response?.outputs.map(({ name }) => name),
    ["OUT"],
  );
  assert.deepEqual(
    [...(response?.parameters ?? [])],
    [
      ["n", 1],
      ["b", true],
      ["s", "x"],
    ],
  );
});
