import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { fakeRequest, int32 } from "../../../tests/fakes/requests.ts";
import { packBytesElements } from "./bytes-tensor.ts";
import { MAX_CORRELATION_ID_BYTES } from "./limits.ts";
import type { ModelConfig } from "./model-config.ts";
import { signatureOf } from "./model-signature.ts";
import type { Tensor } from "./tensor.ts";
import { expectCorrelationId, validateRequest } from "./validate-request.ts";

const TWO = fakeConfig({
  name: "m",
  max_batch_size: 8,
  input: [fakeInput("A", [4]), fakeInput("B", [-1])],
  output: [fakeOutput("OUT", [4])],
});
const good = (): Tensor[] => [int32("A", [1, 4], [1, 2, 3, 4]), int32("B", [1, 2], [5, 6])];

const REFUSED: readonly {
  title: string;
  inputs: readonly Tensor[];
  outputs?: readonly string[];
  config?: ModelConfig;
  text: string;
}[] = [
  {
    title: "an unknown input",
    inputs: [int32("A", [1, 4], [1, 2, 3, 4]), int32("C", [1], [1])],
    text: "unexpected inference input 'C' for model 'm'",
  },
  {
    title: "an input given twice",
    inputs: [...good(), ...good()],
    text: "[request id: <id_unknown>] input 'A' already exists in request",
  },
  { title: "an unknown output", inputs: good(), outputs: ["X"], text: "unexpected inference output 'X' for model 'm'" },
  {
    title: "an output given twice",
    inputs: good(),
    outputs: ["OUT", "OUT"],
    text: "[request id: <id_unknown>] output 'OUT' already exists in request",
  },
  {
    title: "too few inputs",
    inputs: good().slice(0, 1),
    text: "[request id: <id_unknown>] expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ['B']. Please provide all required input(s).",
  },
  {
    title: "no batch dimension",
    inputs: [int32("A", [], []), int32("B", [1, 1], [1])],
    text: "[request id: <id_unknown>] input 'A' has no shape but model requires batch dimension for 'm'",
  },
  {
    title: "different batch sizes",
    inputs: [int32("A", [2, 4], [1, 2, 3, 4, 5, 6, 7, 8]), int32("B", [1, 1], [1])],
    text: "[request id: <id_unknown>] input 'A' batch size does not match other inputs for 'm'",
  },
  {
    title: "a batch of zero beside one of one",
    inputs: [int32("A", [1, 4], [1, 2, 3, 4]), int32("B", [0, 1], [1])],
    text: "[request id: <id_unknown>] input 'A' batch size does not match other inputs for 'm'",
  },
  {
    title: "too large a batch",
    inputs: [int32("A", [9, 4], []), int32("B", [9, 0], [])],
    text: "[request id: <id_unknown>] inference request batch-size must be <= 8 for 'm'",
  },
  {
    title: "another datatype",
    inputs: [{ ...int32("A", [1, 4], [1, 2, 3, 4]), datatype: "FP32" }, int32("B", [1, 1], [1])],
    text: "[request id: <id_unknown>] inference input 'A' data-type is 'FP32', but model 'm' expects 'INT32'",
  },
  {
    title: "a negative dimension",
    inputs: [int32("A", [1, 4], [1, 2, 3, 4]), int32("B", [1, -1], [])],
    text: "[request id: <id_unknown>] All input dimensions should be specified for input 'B' for model 'm', got [1,-1]",
  },
  {
    title: "too little data",
    inputs: [int32("A", [1, 4], [1, 2, 3]), int32("B", [1, 1], [1])],
    text: "[request id: <id_unknown>] input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12",
  },
  {
    title: "an empty batch without data",
    inputs: [int32("A", [0, 4], []), int32("B", [0, 2], [])],
    text: "[request id: <id_unknown>] input byte size mismatch for input 'B' for model 'm'. Expected 8, got 0",
  },
];

for (const { title, inputs, outputs = [], config = TWO, text } of REFUSED) {
  test(`validateRequest() refuses ${title}`, () => {
    assert.throws(() => validateRequest(fakeRequest(inputs, { outputs }), signatureOf(config)), {
      code: "invalid_argument",
      message: text,
    });
  });
}

test("validateRequest() names the batch dimension as the likely reason of a wrong shape", () => {
  const inputs = [int32("A", [1, 5], [1, 2, 3, 4, 5]), int32("B", [1, 1], [1])];
  assert.throws(
    () => validateRequest(fakeRequest(inputs, { id: "q" }), signatureOf(TWO)),
    /^ServerError: \[request id: q\] unexpected shape for input 'A' for model 'm'\. Expected \[-1,4\], got \[1,5\]\. NOTE: Setting a non-zero/,
  );
});

test("validateRequest() counts rows and leaves inputs alone when nothing is reshaped", () => {
  const inputs = [int32("A", [2, 4], [1, 2, 3, 4, 5, 6, 7, 8]), int32("B", [2, 0], [])];
  const validated = validateRequest(fakeRequest(inputs), signatureOf(TWO));
  assert.equal(validated.batchSize, 2);
  assert.equal(validated.inputs, inputs);
});

test("validateRequest() gives the backend the configured reshape with free dimensions filled in order", () => {
  const config = fakeConfig({
    max_batch_size: 2,
    input: [fakeInput("A", [-1, 2, -1], { reshape: { shape: [-1, -1, 2] } })],
  });
  const { inputs } = validateRequest(fakeRequest([int32("A", [1, 3, 2, 1], [1, 2, 3, 4, 5, 6])]), signatureOf(config));
  assert.deepEqual(inputs[0]?.shape, [1, 3, 1, 2]);
});

test("validateRequest() lets optional inputs be left out and says how many are needed", () => {
  const config = fakeConfig({ input: [fakeInput("A", [1]), fakeInput("B", [1], { optional: true })] });
  assert.equal(validateRequest(fakeRequest([int32("A", [1], [1])]), signatureOf(config)).batchSize, 1);
  assert.throws(
    () => validateRequest(fakeRequest([]), signatureOf(config)),
    /expected number of inputs between 1 and 2 but got 0 inputs/,
  );
});

const STRINGS = fakeConfig({ input: [fakeInput("S", [2], { data_type: "TYPE_STRING" })] });
const BROKEN: readonly { title: string; data: Uint8Array; text: RegExp }[] = [
  {
    title: "one element too few",
    data: packBytesElements(["a"]),
    text: /expected 2 string elements for inference input 'S' for model 'm', got 1$/,
  },
  {
    title: "one element too many",
    data: packBytesElements(["a", "b", "c"]),
    text: /unexpected number of string elements 3 for inference input 'S' for model 'm', expecting 2$/,
  },
  {
    title: "a cut length",
    data: packBytesElements(["a", ""]).subarray(0, 7),
    text: /incomplete string length indicator .* expecting 4 bytes but only 2 bytes available/,
  },
  {
    title: "a length beyond the end",
    data: Uint8Array.of(255, 255, 255, 255, 1),
    text: /incomplete string data .* expecting string of length 4294967295 but only 1 bytes/,
  },
];

for (const { title, data, text } of BROKEN) {
  test(`validateRequest() refuses a BYTES tensor with ${title}`, () => {
    const tensor: Tensor = { name: "S", datatype: "BYTES", shape: [2], data };
    assert.throws(() => validateRequest(fakeRequest([tensor]), signatureOf(STRINGS)), text);
  });
}

test("validateRequest() refuses shapes whose element count leaves the safe integers", () => {
  const config = fakeConfig({ input: [fakeInput("A", [-1, -1, -1])] });
  const tensor = int32("A", [2 ** 31, 2 ** 31, 4], []);
  assert.throws(() => validateRequest(fakeRequest([tensor]), signatureOf(config)), { code: "invalid_argument" });
});

test("validateRequest() takes UINT32 for INT32 in pipelines of language models and nowhere else", () => {
  const input = { ...int32("A", [1], [7]), datatype: "UINT32" as const };
  const config = fakeConfig({ backend: "tensorrtllm", input: [fakeInput("A", [1])] });
  assert.equal(validateRequest(fakeRequest([input]), signatureOf(config)).inputs[0]?.datatype, "INT32");
  const other = fakeConfig({ backend: "onnxruntime", input: [fakeInput("A", [1])] });
  assert.throws(() => validateRequest(fakeRequest([input]), signatureOf(other)), /data-type is 'UINT32'/);
});

test("`validateRequest()` takes a batch of zero with the data of one row as that row", () => {
  const request = fakeRequest([int32("A", [0, 4], [1, 2, 3, 4]), int32("B", [0, 2], [5, 6])]);
  const { inputs, batchSize } = validateRequest(request, signatureOf(TWO));
  assert.equal(batchSize, 1);
  assert.deepEqual(
    inputs.map(({ shape }) => shape),
    [
      [1, 4],
      [1, 2],
    ],
  );
});

test("expectCorrelationId() counts bytes of UTF-8 up to the limit", () => {
  expectCorrelationId("x".repeat(MAX_CORRELATION_ID_BYTES));
  for (const id of ["x".repeat(MAX_CORRELATION_ID_BYTES + 1), "ä".repeat(MAX_CORRELATION_ID_BYTES)]) {
    assert.throws(() => expectCorrelationId(id), /cannot be longer than 128 characters/);
  }
});
