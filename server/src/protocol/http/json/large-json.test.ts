import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { RawHttpClient } from "../../../../../tests/fakes/raw-http-client.ts";
import { threadProgram } from "../../../../../tests/support/source-loader.ts";
import type { InferRequest } from "../../../core/infer-request.ts";
import type { ModelServer, ServedModel } from "../../../core/model-server.ts";
import { ResponseStream } from "../../../core/response-stream.ts";
import type { Logger } from "../../../observe/log.ts";
import { createHttpFrontend, type HttpFrontend } from "../frontend.ts";
import { JsonThreads } from "./json-threads.ts";

const COUNT = 30_000;
const PATH = "/v2/models/echo/infer";
const SILENT: Logger = { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore };
const PROGRAM = threadProgram(new URL("json-thread.ts", import.meta.url));

function ignore(): undefined {
  return undefined;
}

/** Answers with what it was given. */
const ECHO = {
  name: "echo",
  version: "1",
  config: { name: "echo", max_batch_size: 0 },
  decoupled: false,
  label: ignore,
  infer({ id, inputs }: InferRequest) {
    const stream = new ResponseStream();
    const head = { modelName: "echo", modelVersion: "1", id, parameters: new Map() };
    stream.push({ ...head, outputs: inputs, final: true, empty: false });
    return stream;
  },
} as unknown as ServedModel;
const SERVER = { state: "running", tracing: { isOn: false }, model: () => ECHO } as unknown as ModelServer;

let frontend: HttpFrontend;
let port: number;
before(async () => {
  const limits = { maxInputBytes: 64 * 1024 * 1024, forwardPattern: undefined, restricted: [] };
  const options = { address: "127.0.0.1", port: 0, ...limits };
  frontend = createHttpFrontend({ server: SERVER, options, log: SILENT, threads: new JsonThreads(2, PROGRAM) });
  ({ port } = await frontend.listen());
});
after(() => frontend.close(0));

/** Floats that say whose they are. */
function values(seed: number): Float32Array {
  return Float32Array.from({ length: COUNT }, (_, i) => Math.fround(seed + i / COUNT));
}

function requestText(seed: number): string {
  return JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [COUNT], data: [...values(seed)] }] });
}

interface Answered {
  readonly outputs: readonly { readonly data: readonly number[] }[];
}

async function expectEcho(client: RawHttpClient, seed: number): Promise<void> {
  client.send("POST", PATH, requestText(seed), { "Content-Type": "application/json" });
  const { status, body } = await client.answer();
  assert.equal(status.slice(0, 3), "200");
  const { outputs } = JSON.parse(body.toString()) as Answered;
  assert.deepEqual(Float32Array.from(outputs[0]?.data ?? []), values(seed));
}

test("large JSON of many clients is answered to each with its own numbers", async () => {
  const clients = Array.from({ length: 4 }, () => new RawHttpClient(port));
  await Promise.all(
    clients.map(async (client, k) => {
      for (let round = 0; round < 4; round++) await expectEcho(client, 10 * k + round);
    }),
  );
  for (const { socket } of clients) socket.destroy();
});

test("clients that leave in the middle of texts and answers disturb nobody else's", async () => {
  const client = new RawHttpClient(port);
  const leave = async (seed: number): Promise<void> => {
    const other = new RawHttpClient(port);
    await once(other.socket, "connect");
    if (seed % 2 === 0) {
      other.socket.write(`POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n${"9".repeat(300_000)}`);
    } else {
      other.send("POST", PATH, requestText(seed));
    }
    // The answer of the one who stays says that theirs have begun.
    await expectEcho(client, seed);
    other.socket.destroy();
  };
  for (let seed = 0; seed < 8; seed++) await leave(seed);
  await expectEcho(client, 100);
  client.socket.destroy();
});
