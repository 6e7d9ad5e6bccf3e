import assert from "node:assert/strict";
import { test } from "node:test";
import { load, options, runOne } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, TestRequest } from "../../../../tests/fakes/python-models.ts";

const FAILURES: readonly (readonly [string, string, RegExp])[] = [
  [
    "the model raises",
    'raise ValueError("planned")',
    /^Failed to process the request\(s\) for model 'm_0_0', message: ValueError: planned\n\nAt:\n {2}\S+\/1\/model\.py\(\d+\): execute\n$/,
  ],
  [
    "a function below raises",
    "return [given(r, 'NOT_THERE') for r in requests]",
    /AttributeError: .*\n\nAt:\n {2}\S+model\.py\(\d+\): given\n {2}\S+model\.py\(\d+\): /,
  ],
  [
    "it returns too few",
    "return []",
    /message: Number of InferenceResponse objects do not match the number of InferenceRequest objects\. InferenceRequest\(s\) size is:2, and InferenceResponse\(s\) size is:0\n$/,
  ],
  ["it returns no list", "return 5", /message: Expected a list in the execute return, found type '<class 'int'>'\.$/],
  [
    "it returns other objects",
    "return [1, 2]",
    /message: Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'\.$/,
  ],
  ["it exits by sys.exit", "sys.exit(3)", /message: SystemExit: 3/],
  [
    "a parameter is a float",
    "return [pb_utils.InferenceResponse([], parameters={'d': 2.25})] * 2",
    /Expect parameters values to have type bool\/int\/str, found type <class 'float'>/,
  ],
];
for (const [what, body, expected] of FAILURES) {
  test(`\`execute()\` fails every request of the batch when ${what}`, options, async (t) => {
    const { instance, source } = await load(t, `def execute(self, requests):\n    ${body}`);
    const requests = [new TestRequest(), new TestRequest()];
    await instance.execute(batchOf(requests));
    for (const request of requests) {
      assert.match(request.errorText ?? "", expected);
      assert.equal(request.errors[0]?.code, "internal");
    }
    assert.equal(requests.flatMap(({ errors }) => errors).length, 2);
    assert.ok(source.lines.some(({ level, message }) => level === "error" && expected.test(message)));
    assert.equal(instance.isReady(), true);
  });
}

test("`execute()` fails with a clear text when the model has no `execute`", options, async (t) => {
  const { instance } = await load(t, "pass");
  const request = await runOne(instance, new TestRequest());
  assert.match(request.errorText ?? "", /Python model \S+\/1\/model\.py does not implement `execute` method\.$/);
});

const CODES = [
  "unknown",
  "internal",
  "not_found",
  "invalid_argument",
  "unavailable",
  "unsupported",
  "already_exists",
  "cancelled",
];
test("`execute()` fails only the one request when its response has an error", options, async (t) => {
  const { instance } = await load(
    t,
    `
def execute(self, requests):
    names = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"]
    errors = [pb_utils.TritonError("planned " + n, getattr(pb_utils.TritonError, n)) for n in names]
    return [pb_utils.InferenceResponse(error=e) for e in errors] + [answer([1])]
`,
  );
  const requests = Array.from({ length: CODES.length + 1 }, () => new TestRequest());
  await instance.execute(batchOf(requests));
  assert.deepEqual(
    requests.map(({ errors }) => errors[0]?.code),
    [...CODES, undefined],
  );
  assert.equal(requests[3]?.errorText, "planned INVALID_ARG");
  assert.equal(requests.at(-1)?.responses.length, 1);
});
