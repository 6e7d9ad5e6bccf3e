import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Metadata, status } from "@grpc/grpc-js";
import { callUnary, inferRequest, int32Bytes, openTestBed, type TestBed } from "./test-peer.test-support.ts";

let bed: TestBed;
before(async () => {
  bed = await openTestBed();
});
after(async () => {
  await bed.close();
});

test("ModelInfer gives raw outputs, model version and id when inputs are raw", async () => {
  const answer = await callUnary(bed.client, "ModelInfer", inferRequest({ id: "abc" }));
  assert.deepEqual(answer, {
    model_name: "simple",
    model_version: "1",
    id: "abc",
    parameters: {},
    outputs: [
      { name: "OUTPUT0", datatype: "INT32", shape: [1, 2], parameters: {}, contents: null },
      { name: "OUTPUT1", datatype: "INT32", shape: [1, 2], parameters: {}, contents: null },
    ],
    raw_output_contents: [int32Bytes([11, 22]), int32Bytes([-9, -18])],
  });
});

test("ModelInfer takes typed contents", async () => {
  const inputs = [
    { name: "INPUT0", datatype: "INT32", shape: [1, 2], contents: { int_contents: [1, -2] } },
    { name: "INPUT1", datatype: "INT32", shape: [1, 2], contents: { int_contents: [3, 4] } },
  ];
  const answer = await callUnary(bed.client, "ModelInfer", { model_name: "simple", inputs });
  assert.deepEqual(answer.raw_output_contents, [int32Bytes([4, 2]), int32Bytes([-2, -6])]);
});

test("ModelInfer carries a tensor of many megabytes both ways", async () => {
  const bytes = Buffer.alloc(5_000_000).map((_, k) => k % 251);
  const inputs = [{ name: "A", datatype: "UINT8", shape: [bytes.length] }];
  const request = { model_name: "echo", inputs, raw_input_contents: [bytes] };
  const client = bed.client;
  const answer = await callUnary(client, "ModelInfer", request).catch((error: unknown) => error);
  // grpc-js accepts at most 4 MiB by default: the request came through, the answer was sent.
  assert.match(String(answer), /Received message larger than max/);
  const half = { ...request, inputs: [{ name: "A", datatype: "UINT8", shape: [3_000_000] }] };
  const small = await callUnary(client, "ModelInfer", { ...half, raw_input_contents: [bytes.subarray(0, 3_000_000)] });
  assert.equal(Buffer.compare(bytes.subarray(0, 3_000_000), small.raw_output_contents[0]), 0);
});

test("ModelInfer turns outputs into classes when asked", async () => {
  const outputs = [{ name: "OUTPUT0", parameters: { classification: { int64_param: 1 } } }];
  const answer = await callUnary(bed.client, "ModelInfer", inferRequest({ outputs }));
  assert.deepEqual(answer.outputs[0].shape, [1, 1]);
  assert.equal(answer.raw_output_contents[0].subarray(4).toString(), "22:1");
});

test("ModelInfer hands custom parameters to the model and those of the response to the client", async () => {
  const parameters = {
    s: { string_param: "x" },
    i: { int64_param: -7 },
    b: { bool_param: true },
    d: { double_param: 1 },
    sequence_id: { int64_param: 9 },
    sequence_start: { bool_param: true },
    priority: { uint64_param: 2 },
    timeout: { int64_param: 5000 },
  };
  const answer = await callUnary(bed.client, "ModelInfer", inferRequest({ model_name: "echo", parameters }));
  assert.deepEqual(answer.parameters, {
    s: { parameter_choice: "string_param", string_param: "x" },
    i: { parameter_choice: "int64_param", int64_param: -7 },
    b: { parameter_choice: "bool_param", bool_param: true },
    d: { parameter_choice: "double_param", double_param: 1 },
  });
  const request = bed.server.seen.at(-1);
  assert.deepEqual(request?.sequence, { id: 9n, start: true, end: false });
  assert.equal(request?.priority, 2);
  assert.equal(request?.timeoutUs, 5000);
});

const infer = inferRequest();
const oneRaw = [int32Bytes([1, 2])];
const withParameter = (key: string, value: object): object => inferRequest({ parameters: { [key]: value } });
const withInput = (input: object): object => ({ model_name: "simple", inputs: [{ name: "INPUT0", ...input }] });
const refusals: [what: string, request: object, code: number, message: string][] = [
  [
    "an unknown model",
    { ...infer, model_name: "nope" },
    status.NOT_FOUND,
    "Request for unknown model: 'nope' is not found",
  ],
  [
    "a decoupled model",
    { ...infer, model_name: "repeat" },
    status.UNIMPLEMENTED,
    "ModelInfer RPC doesn't support models with decoupled transaction policy",
  ],
  ["a failing model", { ...infer, model_name: "fails" }, status.NOT_FOUND, "planned: 100 % späte Grüße"],
  ["a model that throws", { ...infer, model_name: "broken" }, status.INTERNAL, "Internal error"],
  [
    "a missing raw input",
    inferRequest({ raw_input_contents: oneRaw }),
    status.INVALID_ARGUMENT,
    "unable to find data for input tensor 'INPUT1' for model 'simple' in request.",
  ],
  [
    "contents beside raw inputs",
    { ...withInput({ datatype: "INT32", shape: [2], contents: {} }), raw_input_contents: oneRaw },
    status.INVALID_ARGUMENT,
    "contents field must not be specified when using raw_input_contents for 'INPUT0' for model 'simple'",
  ],
  [
    "contents of another type",
    withInput({ datatype: "INT32", shape: [1], contents: { fp32_contents: [1] } }),
    status.INVALID_ARGUMENT,
    "unexpected explicit tensor data for input tensor 'INPUT0' for model 'simple' of type 'FP32', expected datatype 'INT32'",
  ],
  [
    "two kinds of contents",
    withInput({ datatype: "INT32", shape: [1], contents: { int_contents: [1], uint_contents: [1] } }),
    status.INVALID_ARGUMENT,
    "unexpected explicit tensor data for input tensor 'INPUT0' for model 'simple', binary data was already supplied.",
  ],
  [
    "a shared memory region",
    withInput({
      datatype: "INT32",
      shape: [2],
      parameters: { shared_memory_region: { string_param: "r" }, shared_memory_byte_size: { int64_param: 8 } },
    }),
    status.NOT_FOUND,
    "Unable to find shared memory region: 'r'",
  ],
  [
    "a priority that is text",
    withParameter("priority", { string_param: "2" }),
    status.INVALID_ARGUMENT,
    "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
  ],
  [
    "a parameter without value",
    withParameter("e", {}),
    status.INVALID_ARGUMENT,
    "invalid value type for 'e' parameter, expected int64_param, bool_param, or string_param.",
  ],
  [
    "a reserved parameter",
    withParameter("triton_x", { int64_param: 1 }),
    status.INVALID_ARGUMENT,
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
  ],
  [
    "a long sequence id",
    withParameter("sequence_id", { string_param: "y".repeat(129) }),
    status.UNIMPLEMENTED,
    "string correlation ID cannot be longer than 128 characters",
  ],
  [
    "no class",
    inferRequest({ outputs: [{ name: "OUTPUT0", parameters: { classification: { int64_param: 0 } } }] }),
    status.INVALID_ARGUMENT,
    "invalid value for 'classification' parameter, expected >= 0",
  ],
];
for (const [what, request, code, details] of refusals) {
  test(`ModelInfer refuses ${what}`, async () => {
    await assert.rejects(callUnary(bed.client, "ModelInfer", request), { code, details });
  });
}

test("an unexpected failure is logged with its cause, which the client does not see", async () => {
  await assert.rejects(callUnary(bed.client, "ModelInfer", { ...infer, model_name: "broken" }), {
    details: "Internal error",
  });
  assert.match(bed.log.errors.at(-1) ?? "", /ModelInfer: TypeError: secret/);
});

test("a deadline ends the call and aborts the request", async () => {
  const deadline = Date.now() + 50;
  await assert.rejects(callUnary(bed.client, "ModelInfer", { ...infer, model_name: "slow" }, { deadline }), {
    code: status.DEADLINE_EXCEEDED,
  });
  const request = bed.server.seen.at(-1);
  for (let k = 0; k < 100 && request?.signal.aborted !== true; k++) await sleep(10);
  assert.equal(request?.signal.aborted, true);
});

test("metadata that matches the pattern becomes parameters; reserved names are refused", async () => {
  const forward = await openTestBed({ forwardPattern: /^x-fwd-|^timeout$/ });
  const metadata = new Metadata();
  metadata.set("x-fwd-user", "ann");
  metadata.set("x-other", "no");
  const request = inferRequest({ model_name: "echo" });
  const answer = await callUnary(forward.client, "ModelInfer", request, { metadata });
  assert.deepEqual(answer.parameters, { "x-fwd-user": { parameter_choice: "string_param", string_param: "ann" } });
  metadata.set("timeout", "5");
  await assert.rejects(callUnary(forward.client, "ModelInfer", request, { metadata }), {
    details: "Header 'timeout' is reserved for Triton usage and cannot be forwarded.",
  });
  await forward.close();
});

test("restricted groups need their key, others do not", async () => {
  const restricted = [{ apis: ["model-repository"], key: "Admin", value: "let me in" }] as const;
  const closed = await openTestBed({ restricted });
  const details = "This protocol is restricted, expecting header 'triton-grpc-protocol-Admin'";
  const metadata = new Metadata();
  const index = (): Promise<unknown> => callUnary(closed.client, "RepositoryIndex", {}, { metadata });
  await assert.rejects(index(), { code: status.UNAVAILABLE, details });
  metadata.set("triton-grpc-protocol-admin", "let me out");
  await assert.rejects(index(), { code: status.UNAVAILABLE, details });
  metadata.set("triton-grpc-protocol-admin", "let me in");
  await index();
  await callUnary(closed.client, "ServerLive", {});
  await closed.close();
});

for (const level of ["low", "medium", "high"] as const) {
  test(`answers to inference are compressed at level ${level} for a client that takes it`, async () => {
    const compressed = await openTestBed({ inferCompressionLevel: level });
    const answer = await callUnary(compressed.client, "ModelInfer", infer);
    assert.deepEqual(answer.raw_output_contents, [int32Bytes([11, 22]), int32Bytes([-9, -18])]);
    await compressed.close();
  });
}

test("a request may be compressed", async () => {
  const { Client, compressionAlgorithms, credentials } = await import("@grpc/grpc-js");
  for (const name of ["gzip", "deflate"] as const) {
    const client = new Client(`127.0.0.1:${bed.port}`, credentials.createInsecure(), {
      "grpc.default_compression_algorithm": compressionAlgorithms[name],
    });
    const answer = await callUnary(client, "ModelInfer", infer);
    assert.deepEqual(answer.raw_output_contents[0], int32Bytes([11, 22]), name);
    client.close();
  }
});
