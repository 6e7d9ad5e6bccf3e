/** Peers that are no client library of Triton: curl, HTTP/1.1 pipelining on a bare socket, grpc-js with health and reflection. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { Client, credentials } from "@grpc/grpc-js";
import {
  callUnary,
  decode,
  encode,
  identity,
  int32Bytes,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const run = promisify(execFile);
const NUM_PIPELINED = 50;
const READ_TIMEOUT_MS = 240_000;

describe("peers of other make", { timeout: 600_000 }, () => {
  let server: ServerProcess;
  let client: Client;
  before(async () => {
    const flags = ["--model-control-mode=explicit", "--load-model=simple"];
    server = await startServerProcess({ repositories: [EXAMPLES], flags });
    client = new Client(`127.0.0.1:${server.grpc}`, credentials.createInsecure());
  });
  after(async () => {
    client.close();
    await server.stop();
  });

  it("curl gets JSON, headers, compressed answers and metrics", async () => {
    const body = inferBody(1);
    const url = `${server.baseUrl}/v2/models/simple/infer`;
    const plain = await run("curl", ["-sS", "-i", "-X", "POST", url, "-d", body]);
    assert.match(plain.stdout, /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(plain.stdout, /^content-type: application\/json\r$/im);
    const compressed = await run("curl", ["-sS", "--compressed", "-X", "POST", url, "-d", body]);
    assert.deepEqual(firstSums(compressed.stdout), [1, 2]);
    const chunked = await run("curl", ["-sS", "-H", "Transfer-Encoding: chunked", "-X", "POST", url, "-d", body]);
    assert.deepEqual(firstSums(chunked.stdout), [1, 2]);
    const metrics = await run("curl", ["-sS", `http://127.0.0.1:${server.metrics}/metrics`]);
    assert.match(metrics.stdout, /^nv_inference_count\{model="simple",version="1"\} [1-9]/m);
  });

  it("curl sees the status of an error and its JSON", async () => {
    const flags = ["-sS", "-w", "%{http_code}", "-X", "POST"];
    const { stdout } = await run("curl", [...flags, `${server.baseUrl}/v2/models/nope/infer`, "-d", inferBody(1)]);
    assert.match(stdout, /^\{"error":"Request for unknown model: 'nope' is not found"\}404$/);
  });

  it("pipelined requests are answered in their order, errors among them", async () => {
    const paths = Array.from({ length: NUM_PIPELINED }, (_, i) => (i % 10 === 9 ? "nope" : "simple"));
    const requests = paths.map((model, i) => rawRequest(model, inferBody(i)));
    const answers = await exchange(server.http, Buffer.from(requests.join("")), NUM_PIPELINED);
    const expected = paths.map((model, i) => (model === "nope" ? "404" : `200 ${i}`));
    assert.deepEqual(
      answers.map(({ status, body }) => (status === 200 ? `200 ${firstSums(body)[0]}` : `${status}`)),
      expected,
    );
  });

  it("a request that arrives byte by byte is answered", async () => {
    const bytes = Buffer.from(rawRequest("simple", inferBody(7)));
    const [answer] = await exchange(server.http, bytes, 1, 16);
    assert.deepEqual(firstSums(answer?.body ?? ""), [7, 8]);
  });

  it("grpc-js infers with raw tensors", async () => {
    const values = Array.from({ length: 16 }, (_, i) => i);
    const inputs = ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, 16] }));
    const request = {
      model_name: "simple",
      id: "x",
      inputs,
      raw_input_contents: [int32Bytes(values), int32Bytes(values)],
    };
    const answer = await callUnary(client, "ModelInfer", request);
    assert.equal(answer.id, "x");
    assert.deepEqual(answer.raw_output_contents[0], int32Bytes(values.map((value) => 2 * value)));
  });

  it("grpc-js asks the health service for the server and for services by name", async () => {
    const check = (service: string): Promise<{ status: string }> =>
      callUnary(client, "grpc.health.v1.Health/Check", { service });
    assert.equal((await check("")).status, "SERVING");
    assert.equal((await check("inference.GRPCInferenceService")).status, "SERVING");
  });

  for (const version of ["v1", "v1alpha"]) {
    it(`grpc-js learns the services by reflection ${version}`, async () => {
      const scope = `grpc.reflection.${version}`;
      const path = `/${scope}.ServerReflection/ServerReflectionInfo`;
      const stream = client.makeBidiStreamRequest(path, identity, identity);
      stream.write(encode(`${scope}.ServerReflectionRequest`, { list_services: "" }));
      stream.end(encode(`${scope}.ServerReflectionRequest`, { file_containing_symbol: "inference.ModelInferRequest" }));
      const answers = [];
      for await (const bytes of stream) answers.push(decode(`${scope}.ServerReflectionResponse`, bytes));
      const services: { name: string }[] = answers[0].list_services_response.service;
      assert.ok(services.some(({ name }) => name === "inference.GRPCInferenceService"));
      const [file] = answers[1].file_descriptor_response.file_descriptor_proto as Buffer[];
      assert.ok(file?.includes("ModelInferRequest"));
    });
  }
});

function inferBody(first: number): string {
  const left = Array.from({ length: 16 }, (_, i) => first + i);
  const tensor = (name: string, data: readonly number[]): object => ({ name, datatype: "INT32", shape: [1, 16], data });
  return JSON.stringify({ inputs: [tensor("INPUT0", left), tensor("INPUT1", new Array<number>(16).fill(0))] });
}

function firstSums(body: string): number[] {
  const { outputs } = JSON.parse(body) as { outputs: { name: string; data: number[] }[] };
  return outputs.find(({ name }) => name === "OUTPUT0")?.data.slice(0, 2) ?? [];
}

function rawRequest(model: string, body: string): string {
  const head = [
    `POST /v2/models/${model}/infer HTTP/1.1`,
    "Host: nereid",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** Writes all bytes at once, or in pieces of one segment each, and reads that many answers. */
async function exchange(port: number, bytes: Buffer, count: number, pieceBytes = bytes.length): Promise<Answer[]> {
  const socket = connect(port, "127.0.0.1").setNoDelay(true).setTimeout(READ_TIMEOUT_MS);
  socket.on("timeout", () => socket.destroy(new Error(`no answer within ${READ_TIMEOUT_MS} ms`)));
  for (let at = 0; at < bytes.length; at += pieceBytes) socket.write(bytes.subarray(at, at + pieceBytes));
  let received = Buffer.alloc(0);
  const answers: Answer[] = [];
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk as Buffer]);
    for (let next = takeAnswer(received); next !== undefined; next = takeAnswer(received)) {
      answers.push(next.answer);
      received = received.subarray(next.numBytes);
    }
    if (answers.length === count) break;
  }
  socket.destroy();
  return answers;
}

function takeAnswer(received: Buffer): { readonly answer: Answer; readonly numBytes: number } | undefined {
  const split = received.indexOf("\r\n\r\n");
  if (split < 0) return undefined;
  const head = received.subarray(0, split).toString("latin1");
  const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
  const numBytes = split + 4 + length;
  if (received.length < numBytes) return undefined;
  const body = received.subarray(split + 4, numBytes).toString();
  return { answer: { status: Number(head.split(" ")[1]), body }, numBytes };
}
