import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest } from "../../../../tests/fakes/requests.ts";
import { checkSequenceRequest } from "./rules.ts";

const NUMERIC = { name: "CORRID", datatype: "UINT64" } as const;
const TEXT = { name: "CORRID", datatype: "BYTES" } as const;

const REFUSED = [
  {
    title: "a request without an id",
    id: 0n,
    message: "inference request to model 'm' must specify a non-zero or non-empty correlation ID",
  },
  {
    title: "an empty id",
    id: "",
    control: TEXT,
    message: "inference request to model 'm' must specify a non-zero or non-empty correlation ID",
  },
  {
    title: "a text for a numeric control",
    id: "abc",
    message:
      "[request id: <id_unknown>] sequence batching control 'CORRID' data-type is 'BYTES', but model 'm' expects 'UINT64'",
  },
  {
    title: "a number for a text control",
    id: 12n,
    control: TEXT,
    requestId: "r1",
    message: "[request id: r1] sequence batching control 'CORRID' data-type is 'UINT64', but model 'm' expects 'BYTES'",
  },
  {
    title: "more than one row",
    id: 12n,
    batchSize: 2,
    message: "inference request to model 'm' must specify batch-size 1 due to requirements of sequence batcher",
  },
  {
    title: "a text that is too long",
    id: "x".repeat(129),
    control: TEXT,
    code: "unsupported",
    message: "string correlation ID cannot be longer than 128 characters",
  },
] as const;

for (const refused of REFUSED) {
  test(`checkSequenceRequest() refuses ${refused.title}`, () => {
    const {
      id,
      message,
      code = "invalid_argument",
      control = NUMERIC,
      requestId = "",
      batchSize = 1,
    } = {
      ...{ code: undefined, control: undefined, requestId: undefined, batchSize: undefined },
      ...refused,
    };
    const request = fakeRequest([], { id: requestId, sequence: { id, start: true, end: false } });
    assert.throws(() => checkSequenceRequest(request, batchSize, "m", control), { code, message });
  });
}

const TAKEN = [
  { title: "the largest number", id: 2n ** 64n - 1n, control: NUMERIC },
  { title: "a number for a narrower control", id: 5n, control: { name: "CORRID", datatype: "INT32" } },
  { title: "a text of 128 characters", id: "x".repeat(128), control: TEXT },
  { title: "a text when the model does not see it", id: "abc", control: undefined },
] as const;

for (const { title, id, control } of TAKEN) {
  test(`checkSequenceRequest() takes ${title}`, () => {
    const request = fakeRequest([], { sequence: { id, start: true, end: false } });
    assert.equal(checkSequenceRequest(request, 1, "m", control), undefined);
  });
}
