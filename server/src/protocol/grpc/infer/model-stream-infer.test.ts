import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClientDuplexStream, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  decode,
  encode,
  identity,
  inferRequest,
  int32Bytes,
  openTestBed,
  STREAM_INFER,
  type TestBed,
} from "../test-peer.test-support.ts";

let bed: TestBed;
before(async () => {
  bed = await openTestBed();
});
after(async () => {
  await bed.close();
});

function open(metadata: Metadata = new Metadata()): ClientDuplexStream<Buffer, Buffer> {
  return bed.client.makeBidiStreamRequest(STREAM_INFER, identity, identity, metadata);
}

function write(stream: ClientDuplexStream<Buffer, Buffer>, request: object): void {
  stream.write(encode("inference.ModelInferRequest", request));
}

interface StreamEnd {
  // biome-ignore lint/suspicious/noExplicitAny: decoded messages, read by tests
  readonly messages: any[];
  readonly code: number;
  readonly details: string;
}

function collect(stream: ClientDuplexStream<Buffer, Buffer>): Promise<StreamEnd> {
  const messages: unknown[] = [];
  return new Promise((resolve) => {
    stream.on("data", (bytes: Buffer) => messages.push(decode("inference.ModelStreamInferResponse", bytes)));
    stream.on("error", (error: ServiceError) => resolve({ messages, code: error.code, details: error.details }));
    stream.on("status", ({ code, details }) => code === 0 && resolve({ messages, code, details }));
  });
}

async function exchange(requests: readonly object[], metadata?: Metadata): Promise<StreamEnd> {
  const stream = open(metadata);
  for (const request of requests) write(stream, request);
  stream.end();
  return await collect(stream);
}

const repeat = (values: readonly number[], changes: object = {}): object => ({
  model_name: "repeat",
  inputs: [{ name: "IN", datatype: "INT32", shape: [values.length] }],
  raw_input_contents: [int32Bytes(values)],
  ...changes,
});
const WANTS_EMPTY_FINAL = { parameters: { triton_enable_empty_final_response: { bool_param: true } } };
const NOT_FINAL = { parameter_choice: "bool_param", bool_param: false };
const FINAL = { parameter_choice: "bool_param", bool_param: true };

test("a stream without requests ends with OK", async () => {
  assert.deepEqual(await exchange([]), { messages: [], code: 0, details: "" });
});

test("answers of normal models leave in the order of their requests and are marked final", async () => {
  const requests = ["late", "simple", "late", "simple"].map((model_name, k) =>
    inferRequest({ model_name, id: `r${k}` }),
  );
  const { messages, code } = await exchange(requests);
  assert.equal(code, 0);
  assert.deepEqual(
    messages.map(({ infer_response }) => infer_response.id),
    ["r0", "r1", "r2", "r3"],
  );
  for (const { infer_response } of messages)
    assert.deepEqual(infer_response.parameters, { triton_final_response: FINAL });
});

test("a decoupled request gives its responses, none of them final, and no empty one", async () => {
  const { messages, code } = await exchange([repeat([5, 6, 7], { id: "d" })]);
  assert.equal(code, 0);
  assert.deepEqual(
    messages.map(({ infer_response }) => infer_response.raw_output_contents[0]),
    [5, 6, 7].map((value) => int32Bytes([value])),
  );
  for (const { infer_response } of messages) {
    assert.deepEqual(infer_response.parameters, { triton_final_response: NOT_FINAL });
  }
});

test("an empty final response names model, version and id as the request did", async () => {
  const { messages } = await exchange([repeat([], { id: "n", model_version: "1", ...WANTS_EMPTY_FINAL })]);
  const parameters = { triton_final_response: FINAL };
  const infer_response = { model_name: "repeat", model_version: "1", id: "n", parameters, outputs: [] };
  assert.deepEqual(messages, [{ error_message: "", infer_response: { ...infer_response, raw_output_contents: [] } }]);
});

test("answers of a decoupled model do not wait for those of a slow normal one", async () => {
  const { messages } = await exchange([inferRequest({ model_name: "late", id: "late" }), repeat([1], { id: "d" })]);
  assert.deepEqual(
    messages.map(({ infer_response }) => infer_response.id),
    ["d", "late"],
  );
});

test("a refused request gives a message with its id alone, and the stream goes on", async () => {
  const { messages, code } = await exchange([{ model_name: "nope", id: "x" }, inferRequest({ id: "y" })]);
  assert.equal(code, 0);
  assert.equal(messages[0].error_message, "Request for unknown model: 'nope' is not found");
  assert.deepEqual(messages[0].infer_response, {
    model_name: "",
    model_version: "",
    id: "x",
    parameters: {},
    outputs: [],
    raw_output_contents: [],
  });
  assert.equal(messages[1].infer_response.id, "y");
});

test("an error among the responses of a decoupled request does not end it", async () => {
  const { messages } = await exchange([repeat([1, -1, 2], { id: "f" })]);
  assert.deepEqual(
    messages.map(({ error_message }) => error_message),
    ["", "planned failure", ""],
  );
  assert.equal(messages[1].infer_response.model_name, "repeat");
  assert.deepEqual(messages[1].infer_response.parameters, { triton_final_response: NOT_FINAL });
});

test("an unexpected failure is a message too and its cause goes to the log", async () => {
  const { messages, code } = await exchange([inferRequest({ model_name: "broken", id: "b" })]);
  assert.equal(code, 0);
  assert.equal(messages[0].error_message, "Internal error");
  assert.match(bed.log.errors.at(-1) ?? "", /TypeError: secret/);
});

test("in strict mode the first error is the status of the call and cancels what is in flight", async () => {
  const metadata = new Metadata();
  metadata.set("triton_grpc_error", "true");
  const stream = open(metadata);
  write(stream, inferRequest({ model_name: "slow" }));
  write(stream, repeat([1, -1, 2], { id: "f" }));
  const { messages, code, details } = await collect(stream);
  assert.equal(code, status.INTERNAL);
  assert.equal(details, "planned failure");
  assert.equal(messages.length, 1);
  assert.equal(bed.server.seen.findLast((request) => request.modelName === "slow")?.signal.aborted, true);
});

test("in strict mode a request that its queue gave up at once is a failure, not a refusal", async () => {
  const metadata = new Metadata();
  metadata.set("triton_grpc_error", "true");
  const stream = open(metadata);
  write(stream, inferRequest({ model_name: "fails", id: "queued" }));
  assert.deepEqual(await collect(stream), { messages: [], code: status.UNAVAILABLE, details: "gave up" });
});

test("a client that cancels aborts every request in flight", async () => {
  const stream = open();
  const ended = collect(stream);
  write(stream, inferRequest({ model_name: "slow", id: "c1" }));
  write(stream, inferRequest({ model_name: "slow", id: "c2" }));
  const inFlight = (): readonly { signal: AbortSignal }[] => bed.server.seen.filter(({ id }) => /^c\d$/.test(id));
  for (let k = 0; k < 200 && inFlight().length < 2; k++) await sleep(5);
  stream.cancel();
  assert.equal((await ended).code, status.CANCELLED);
  for (let k = 0; k < 200 && inFlight().some(({ signal }) => !signal.aborted); k++) await sleep(5);
  assert.deepEqual(
    inFlight().map(({ signal }) => signal.aborted),
    [true, true],
  );
});

for (const numStreams of [1, 6]) {
  test(`${numStreams} streams carry sixteen large requests each at once in both directions`, async () => {
    const bytes = Buffer.alloc(600_000, 7);
    const inputs = [{ name: "A", datatype: "UINT8", shape: [bytes.length] }];
    const requests = Array.from({ length: 16 }, (_, k) => {
      return { model_name: "echo", id: String(k), inputs, raw_input_contents: [bytes] };
    });
    for (const { messages, code } of await Promise.all(Array.from({ length: numStreams }, () => exchange(requests)))) {
      assert.equal(code, 0);
      assert.deepEqual(
        messages.map(({ infer_response }) => [infer_response.id, infer_response.raw_output_contents[0].length]),
        requests.map(({ id }) => [id, 600_000]),
      );
    }
  });
}

test("a client that reads late gets every response of a decoupled request", async () => {
  const stream = open();
  write(stream, repeat(Array.from({ length: 20_000 }, (_, k) => k)));
  stream.end();
  await sleep(100);
  const { messages, code } = await collect(stream);
  assert.equal(code, 0);
  assert.equal(messages.length, 20_000);
});
