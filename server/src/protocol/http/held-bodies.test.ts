import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { RawHttpClient } from "../../../../tests/fakes/raw-http-client.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { ModelServer, ServedModel } from "../../core/model-server.ts";
import { ResponseStream } from "../../core/response-stream.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { createHttpFrontend, type HttpFrontend } from "./frontend.ts";

const HELD_BYTES = 1000;
const INDEX = "/v2/repository/index";
const SILENT: Logger = { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore };
const MODEL = {
  config: {},
  decoupled: false,
  infer() {
    throw new ServerError("not_found", "no such model");
  },
} as unknown as ServedModel;
/** Answers a while after its client has left: an instance was busy. */
const SILENT_MODEL = { config: {}, decoupled: false, infer: neverAnswering } as unknown as ServedModel;

const waiting = new Set<() => void>();

function neverAnswering({ signal }: InferRequest): ResponseStream {
  const stream = new ResponseStream();
  signal.addEventListener("abort", () => {
    waiting.add(() => stream.fail(new ServerError("cancelled", "Request was cancelled")));
  });
  return stream;
}
const SERVER = {
  state: "running",
  tracing: { isOn: false },
  index: () => [],
  model: (name: string) => (name === "silent" ? SILENT_MODEL : MODEL),
} as unknown as ModelServer;

function ignore(): undefined {
  return undefined;
}

let frontend: HttpFrontend;
let port: number;
before(async () => {
  const limits = { maxInputBytes: 10_000, maxHeldBodyBytes: HELD_BYTES, forwardPattern: undefined, restricted: [] };
  const options = { address: "127.0.0.1", port: 0, ...limits };
  frontend = createHttpFrontend({ server: SERVER, options, log: SILENT });
  ({ port } = await frontend.listen());
});
after(() => frontend.close(0));

function spaces(numBytes: number): string {
  return `{${" ".repeat(numBytes - 2)}}`;
}

async function statusOf(body: string | Buffer, headers: Record<string, string> = {}, path = INDEX): Promise<string> {
  const client = new RawHttpClient(port);
  client.send("POST", path, body, headers);
  const { status } = await client.answer();
  client.socket.destroy();
  return status.slice(0, 3);
}

/** A client whose body has begun, and what is left of it. The server has read the beginning when this resolves. */
async function beginBody(): Promise<{ client: RawHttpClient; rest: string }> {
  const body = spaces(800);
  const client = new RawHttpClient(port);
  const head = `POST ${INDEX} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`;
  client.socket.write(head + body.slice(0, 700));
  // Sent when the head was read, with which the beginning of the body came.
  await client.received((bytes) => bytes.includes("100 Continue"));
  return { client, rest: body.slice(700) };
}

test("a body for which there is no room beside those on their way is refused with 503, and taken later", async () => {
  const { client, rest } = await beginBody();
  assert.equal(await statusOf(spaces(301)), "503");
  assert.equal(await statusOf(spaces(300)), "200");
  client.socket.write(rest);
  await client.received((bytes) => bytes.includes("200 OK"));
  client.socket.destroy();
  assert.equal(await statusOf(spaces(HELD_BYTES)), "200");
});

test("a client that leaves in the middle of its body gives its room back", async () => {
  const { client } = await beginBody();
  client.socket.destroy();
  await once(client.socket, "close");
  while ((await statusOf(spaces(HELD_BYTES))) !== "200");
});

test("what a compressed body becomes counts", async () => {
  const headers = { "Content-Encoding": "gzip" };
  const infer = "/v2/models/m/infer";
  assert.equal(await statusOf(gzipSync('{"inputs":[]}'), headers, infer), "404");
  assert.equal(await statusOf(gzipSync(spaces(HELD_BYTES)), headers, infer), "503");
});

test("requests whose client left give their room back when nothing reads them any more", async () => {
  const silent = "/v2/models/silent/infer";
  const client = new RawHttpClient(port);
  for (let k = 0; k < 3; k++) client.send("POST", silent, `{"inputs":[]${" ".repeat(300)}}`);
  while (frontend.callCount < 3) await sleep(10);
  client.socket.destroy();
  while (waiting.size < 3) await sleep(10);
  // Their tensors are still in the queue of the model, so their bytes still count.
  assert.equal(await statusOf(spaces(HELD_BYTES)), "503");
  for (const end of waiting) end();
  while ((await statusOf(spaces(HELD_BYTES))) !== "200") await sleep(10);
  while (frontend.callCount > 0) await sleep(10);
});
