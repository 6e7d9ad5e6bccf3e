/**
 * Rules of Triton's protocol, each probed with values of its own: a second set beside the recorded answers of tests/golden. All rows are
 * sent to one server.
 */
import assert from "node:assert/strict";
import { Agent } from "node:http";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { decode, encode, identity } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { BINARY_ROWS } from "./binary-rows.ts";
import { GRPC_ROWS } from "./grpc-rows.ts";
import { type HttpRow, saidIn, sendRow, titleOf } from "./http-row.ts";
import { INFER_ROWS } from "./infer-rows.ts";
import { BROKEN_JSON } from "./json-rows.ts";
import { NUMBERS } from "./number-rows.ts";
import { PARAMETER_ROWS } from "./parameter-rows.ts";
import { ROUTE_ROWS } from "./route-rows.ts";

const BROKEN = "failed to parse the request JSON buffer: ";

/** A model that gives its inputs back. */
function echo(inputs: readonly string[], datatype: string, dims: string, maxBatchSize = 0, outputs = ["OUT"]): string {
  const tensors = (names: readonly string[]): string =>
    names.map((name) => `{ name: "${name}" data_type: ${datatype} dims: [ ${dims} ] }`).join(", ");
  return `backend: "identity" max_batch_size: ${maxBatchSize}
    input [ ${tensors(inputs)} ] output [ ${tensors(outputs)} ] instance_group [ { kind: KIND_CPU } ]`;
}

const MODELS: Readonly<Record<string, string>> = {
  "pair/config.pbtxt": echo(["LEFT", "RIGHT"], "TYPE_INT32", "3", 4, ["SUM", "DIFFERENCE"]),
  "words/config.pbtxt": echo(["W"], "TYPE_STRING", "-1"),
  "word/config.pbtxt": echo(["W"], "TYPE_STRING", "1"),
  "half/config.pbtxt": echo(["H"], "TYPE_FP16", "-1"),
  "reals/config.pbtxt": echo(["X"], "TYPE_FP64", "-1"),
  "floats/config.pbtxt": echo(["X"], "TYPE_FP32", "-1"),
  "plane/config.pbtxt": echo(["P"], "TYPE_FP32", "-1, -1"),
};

let repository: ModelRepository;
let server: ServerProcess;
let grpc: Client;
const agent = new Agent({ keepAlive: true });

before(async () => {
  repository = await createModelRepository({ files: MODELS });
  const flags = ["--model-control-mode=explicit", "--load-model=*"];
  server = await startServerProcess({ repositories: [repository.path], flags });
  grpc = new Client(`127.0.0.1:${server.grpc}`, credentials.createInsecure());
});
after(async () => {
  grpc?.close();
  agent.destroy();
  await server?.kill();
  await repository?.[Symbol.asyncDispose]();
});

const send = (row: Pick<HttpRow, "to" | "body" | "headers">) => sendRow(server.http, row, agent);

async function check(row: HttpRow): Promise<void> {
  const answer = await send(row);
  const said = saidIn(answer);
  if (typeof row.says === "string") assert.equal(said, row.says);
  else assert.match(said, row.says);
  assert.equal(answer.status, row.status);
  assert.equal(answer.type, row.type ?? "application/json");
}

describe("HTTP", { concurrency: 4 }, () => {
  for (const row of [...INFER_ROWS, ...PARAMETER_ROWS, ...BINARY_ROWS, ...ROUTE_ROWS]) {
    test(titleOf(row), () => check(row));
  }
});

describe("offsets of broken JSON", { concurrency: 4 }, () => {
  for (const [text, reason] of BROKEN_JSON) {
    test(JSON.stringify(text), () =>
      check({ rule: "", to: "POST /v2/models/pair/infer", body: text, status: 500, says: BROKEN + reason }),
    );
  }
});

describe("digits of numbers", { concurrency: 4 }, () => {
  for (const [sent, fp64, fp32] of NUMBERS) {
    for (const [model, datatype, expected] of [
      ["reals", "FP64", fp64],
      ["floats", "FP32", fp32],
    ] as const) {
      test(`${sent} as ${datatype} comes back as ${expected}`, async () => {
        const body = `{"inputs":[{"name":"X","datatype":"${datatype}","shape":[1],"data":[${sent}]}]}`;
        const { text } = await send({ to: `POST /v2/models/${model}/infer`, body });
        assert.equal(/"data":\[([^\]]*)\]/.exec(text)?.[1] ?? text, expected);
      });
    }
  }
});

function call(rpc: string, request: object): Promise<{ readonly code: number; readonly says: string }> {
  const path = `/inference.GRPCInferenceService/${rpc}`;
  return new Promise((resolve) => {
    grpc.makeUnaryRequest(path, identity, identity, encode(`inference.${rpc}Request`, request), (error, bytes) => {
      if (error !== null) resolve({ code: error.code, says: (error as ServiceError).details });
      else
        resolve({
          code: 0,
          says:
            bytes?.length === 0 ? "{}" : JSON.stringify(decode(`inference.${rpc}Response`, bytes ?? Buffer.alloc(0))),
        });
    });
  });
}

describe("gRPC", { concurrency: 4 }, () => {
  for (const [rule, rpc, request, code, says] of GRPC_ROWS) {
    test(`${rpc}: ${rule}`, async () => assert.deepEqual(await call(rpc, request), { code, says }));
  }
});

const WITHOUT_HOST = ["GET /v2/health/live HTTP/1.0", "GET /v2/health/live HTTP/1.1\r\nConnection: close"];
for (const head of WITHOUT_HOST) {
  test(`${head.slice(-30).trim()} needs no Host`, async () => {
    const socket = connect(server.http, "127.0.0.1");
    socket.end(`${head}\r\n\r\n`);
    let text = "";
    for await (const part of socket) text += String(part);
    assert.match(text, /^HTTP\/1\.[01] 200 OK\r\nContent-Type: text\/plain\r\nContent-Length: 0\r\n/);
  });
}

/** Refused requests are messages of a stream, in strict mode too; only a failure of a model ends one. */
test("a strict stream goes on behind refused requests", async () => {
  const { Metadata } = await import("@grpc/grpc-js");
  const metadata = new Metadata();
  metadata.set("triton_grpc_error", "true");
  const path = "/inference.GRPCInferenceService/ModelStreamInfer";
  const stream = grpc.makeBidiStreamRequest(path, identity, identity, metadata);
  const good = {
    model_name: "words",
    id: "good",
    inputs: [{ name: "W", datatype: "BYTES", shape: [0], contents: {} }],
  };
  for (const request of [{ model_name: "nothing", id: "a" }, { ...good, id: "b", inputs: [] }, good]) {
    stream.write(encode("inference.ModelInferRequest", request));
  }
  stream.end();
  const answers: (readonly [string, string])[] = [];
  for await (const bytes of stream) {
    const { error_message, infer_response } = decode("inference.ModelStreamInferResponse", bytes as Buffer);
    answers.push([infer_response.id, error_message]);
  }
  assert.deepEqual(answers, [
    ["a", "Request for unknown model: 'nothing' is not found"],
    [
      "b",
      "[request id: b] expected 1 inputs but got 0 inputs for model 'words'. Got input(s) [], but missing required input(s) ['W']. Please provide all required input(s).",
    ],
    ["good", ""],
  ]);
});
