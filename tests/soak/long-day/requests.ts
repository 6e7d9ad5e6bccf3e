/** Every kind of request of a long day, with the answer that must come. Each says which worker processes it needs. */
import assert from "node:assert/strict";
import type { Client } from "@grpc/grpc-js";
import { callUnary } from "../../../server/src/protocol/grpc/test-peer.test-support.ts";
import { SharedMemoryObject } from "../../fakes/shared-memory-object.ts";
import { SHAPES } from "../../support/grpc-shapes.ts";
import type { KeepAliveClient, Outgoing, Reply } from "../../support/hostile-http.ts";
import { SIMPLE_REQUEST } from "../../support/probe-server.ts";
import type { Random } from "../../support/random.ts";
import type { Ports } from "../../support/server-process.ts";

/** Processes and threads that are killed now and then. */
export type Worker = "python" | "typescript" | "engine";

export interface Peers {
  readonly ports: Ports;
  readonly http: KeepAliveClient;
  readonly grpc: Client;
  readonly random: Random;
}

export interface DayRequest {
  readonly name: string;
  readonly needs: readonly Worker[];
  /** @throws when the answer is not the right one */
  send(peers: Peers): Promise<void>;
}

const INT32_BYTES = 4;
const PROMPTS = ["Once upon a time", "The little bird sat on the highest branch", "What is machine learning?"];
const MAX_TOKENS = 12;
/** Later sequences of a part begin where those of the last one ended, with room to spare. */
const MAX_SEQUENCE = 2 ** 40;

const ENGINE: readonly Worker[] = ["engine"];

export const REQUESTS: readonly DayRequest[] = [
  request("onnx over HTTP", [], async ({ http }) => {
    const answer = jsonOf(await http.send({ path: "/v2/models/simple/infer", body: SIMPLE_REQUEST }));
    assert.equal(valueAt(answer, "outputs", 0, "data", 3), 6);
  }),
  request("onnx over gRPC", [], async ({ grpc, random }) => {
    const value = random.below(1000);
    const answer = await callUnary(grpc, "ModelInfer", sixteen(value));
    assert.equal(Buffer.from(answer.raw_output_contents[0]).readInt32LE(0), 2 * value);
  }),
  request("reloaded onnx over gRPC", [], async ({ grpc }) => {
    const answer = await callUnary(grpc, "ModelInfer", sixteen(5));
    assert.equal(Buffer.from(answer.raw_output_contents[0]).readInt32LE(60), 10);
  }),
  request("call of gRPC", [], async ({ grpc, random }) => {
    await SHAPES[random.pick(Object.keys(SHAPES))]?.(grpc);
  }),
  request("stream over HTTP", [], async ({ http }) => {
    const body = JSON.stringify({ IN: [1, 2, 3], DELAY: [5, 5, 5], WAIT: [0] });
    const text = okText(await http.send({ path: "/v2/models/repeat/generate_stream", body }));
    assert.equal(text.match(/^data: .*"OUT":/gm)?.length, 3);
  }),
  request("binary tensors over HTTP", [], binaryEcho),
  request("cached and batched", [], async ({ http, random }) => {
    const value = random.below(100_000);
    const body = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1, 2], data: [value, 7] }] });
    const answer = jsonOf(await http.send({ path: "/v2/models/cached/infer", body }));
    assert.equal(valueAt(answer, "outputs", 0, "data", 0), value);
  }),
  request("python over HTTP", ["python"], async ({ http }) => {
    const inputs = ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "FP32", shape: [4], data: [1, 2, 3, 4] }));
    const answer = jsonOf(await http.send({ path: "/v2/models/add_sub/infer", body: JSON.stringify({ inputs }) }));
    assert.equal(valueAt(answer, "outputs", 0, "data", 3), 8);
  }),
  request("sequence of python", ["python"], sequence),
  request("typescript", ["typescript"], async ({ http }) => {
    assert.equal(valueAt(jsonOf(await http.send(mortalRequest(21))), "outputs", 0, "data", 0), 42);
  }),
  request("typescript that calls a model", [], async ({ http, random }) => {
    const text = random.pick(PROMPTS);
    const inputs = [{ name: "TEXT", datatype: "BYTES", shape: [1, 1], data: [text] }];
    const answer = jsonOf(
      await http.send({ path: "/v2/models/text_statistics/infer", body: JSON.stringify({ inputs }) }),
    );
    assert.equal(valueAt(answer, "outputs", 0, "data", 0), text.split(" ").length);
  }),
  request("ensemble", ENGINE, async ({ http, random }) => {
    const answer = jsonOf(await http.send({ path: "/v2/models/ensemble/generate", body: prompt(random, false) }));
    assert.equal(typeof valueAt(answer, "text_output"), "string");
  }),
  request("streamed ensemble", ENGINE, async ({ http, random }) => {
    const text = okText(await http.send({ path: "/v2/models/ensemble/generate_stream", body: prompt(random, true) }));
    assert.ok(!text.includes('"error"') && text.includes("text_output"), text.slice(-300));
  }),
  request("chat of OpenAI", ENGINE, async ({ http, random }) => {
    const answer = jsonOf(await http.send({ path: "/v1/chat/completions", body: chat(random, false) }));
    assert.equal(typeof valueAt(answer, "choices", 0, "message", "content"), "string");
  }),
  request("streamed chat of OpenAI", ENGINE, async ({ http, random }) => {
    const text = okText(await http.send({ path: "/v1/chat/completions", body: chat(random, true) }));
    assert.match(text, /data: \[DONE\]/);
  }),
  request("completion of OpenAI", ENGINE, async ({ http, random }) => {
    const body = JSON.stringify({ model: "tensorrt_llm", prompt: random.pick(PROMPTS), max_tokens: MAX_TOKENS });
    const answer = jsonOf(await http.send({ path: "/v1/completions", body }));
    assert.equal(typeof valueAt(answer, "choices", 0, "text"), "string");
  }),
  request("shared memory", [], sharedMemory),
  request("pages of the operator", [], async ({ http, ports }) => {
    for (const path of ["/v2", "/v2/models/stats", "/v2/models/simple", "/v2/models/simple/config", "/v1/models"])
      okText(await http.send({ method: "GET", path }));
    okText(await http.send({ path: "/v2/repository/index" }));
    const page = await (await fetch(`http://127.0.0.1:${ports.metrics}/metrics`)).text();
    assert.match(page, /nv_inference_request_success/);
  }),
  request("settings", [], async ({ http, random }) => {
    const body = JSON.stringify({ log_verbose_level: random.below(2) });
    okText(await http.send({ path: "/v2/logging", body }));
    okText(await http.send({ path: "/v2/logging", body: '{"log_verbose_level":0}' }));
  }),
  request("refused", [], async ({ http }) => {
    const body = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1, 3], data: [1, 2, 3] }] });
    const { status } = await http.send({ path: "/v2/models/simple/infer", body });
    assert.equal(status, 400);
  }),
];

/** The model's thread ends at -1. */
export function mortalRequest(value: number): Outgoing {
  const inputs = [{ name: "X", datatype: "INT32", shape: [1], data: [value] }];
  return { path: "/v2/models/mortal/infer", body: JSON.stringify({ inputs }) };
}

function request(name: string, needs: readonly Worker[], send: DayRequest["send"]): DayRequest {
  return { name, needs, send };
}

function sixteen(value: number): object {
  const inputs = ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, 16] }));
  const bytes = Buffer.from(new Int32Array(16).fill(value).buffer);
  return { model_name: "simple", inputs, raw_input_contents: [bytes, bytes] };
}

/** Up to 256 KiB, by the extension of binary tensors. */
async function binaryEcho({ http, random }: Peers): Promise<void> {
  const values = Int32Array.from({ length: 1 + random.below(65_536) }, (_, i) => i);
  const byteSize = values.byteLength;
  const head = Buffer.from(
    JSON.stringify({
      inputs: [
        { name: "INPUT0", datatype: "INT32", shape: [values.length], parameters: { binary_data_size: byteSize } },
      ],
      parameters: { binary_data_output: true },
    }),
  );
  const { status, body } = await http.send({
    path: "/v2/models/echo/infer",
    headers: { "Inference-Header-Content-Length": `${head.length}` },
    body: Buffer.concat([head, Buffer.from(values.buffer)]),
  });
  assert.equal(status, 200, body.toString("utf8", 0, 300));
  assert.ok(body.subarray(body.length - byteSize).equals(Buffer.from(values.buffer)));
}

/** Three steps, whose sum the server keeps. */
async function sequence({ http, random }: Peers): Promise<void> {
  const id = 1 + Math.floor(random.next() * MAX_SEQUENCE);
  const sums: unknown[] = [];
  for (const step of [1, 2, 3]) {
    const body = JSON.stringify({
      parameters: { sequence_id: id, sequence_start: step === 1, sequence_end: step === 3 },
      inputs: [{ name: "IN", datatype: "INT32", shape: [1, 1], data: [step] }],
    });
    const answer = jsonOf(await http.send({ path: "/v2/models/running_sum/infer", body }));
    sums.push(valueAt(answer, "outputs", 0, "data", 0));
  }
  assert.deepEqual(sums, [1, 3, 6]);
}

/** A region of its own, for input and output, taken back at the end. */
async function sharedMemory({ http, random }: Peers): Promise<void> {
  const name = `day-${Math.floor(random.next() * MAX_SEQUENCE)}`;
  const values = Int32Array.from({ length: 1024 }, (_, i) => i * 3);
  const bytes = Buffer.from(values.buffer);
  using object = new SharedMemoryObject(Buffer.concat([bytes, Buffer.alloc(bytes.length)]));
  const region = `/v2/systemsharedmemory/region/${name}`;
  const place = { shared_memory_region: name, shared_memory_byte_size: bytes.length };
  okText(
    await http.send({
      path: `${region}/register`,
      body: JSON.stringify({ key: object.key, byte_size: 2 * bytes.length }),
    }),
  );
  const shape = [bytes.length / INT32_BYTES];
  const body = JSON.stringify({
    inputs: [{ name: "INPUT0", datatype: "INT32", shape, parameters: place }],
    outputs: [{ name: "OUTPUT0", parameters: { ...place, shared_memory_offset: bytes.length } }],
  });
  okText(await http.send({ path: "/v2/models/echo/infer", body }));
  assert.ok(object.read().subarray(bytes.length).equals(bytes));
  okText(await http.send({ path: `${region}/unregister` }));
}

function prompt(random: Random, stream: boolean): string {
  return JSON.stringify({ text_input: random.pick(PROMPTS), max_tokens: 1 + random.below(MAX_TOKENS), stream });
}

function chat(random: Random, stream: boolean): string {
  const messages = [{ role: "user", content: random.pick(PROMPTS) }];
  return JSON.stringify({ model: "tensorrt_llm", messages, max_tokens: 1 + random.below(MAX_TOKENS), stream });
}

/** The part of an answer at a path; undefined where there is none. */
function valueAt(answer: unknown, ...path: readonly (string | number)[]): unknown {
  let value = answer;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function okText({ status, body }: Reply): string {
  assert.equal(status, 200, body.toString("utf8", 0, 300));
  return body.toString();
}

function jsonOf(reply: Reply): unknown {
  return JSON.parse(okText(reply));
}
