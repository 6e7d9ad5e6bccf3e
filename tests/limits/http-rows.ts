/** Limits of heads, bodies and JSON over HTTP. */
import { Readable } from "node:stream";
import { createDraft } from "../../server/src/config/flags/options-draft.ts";
import type { ModelServer, ServedModel } from "../../server/src/core/model-server.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { readJsonBody } from "../../server/src/protocol/api/json-body.ts";
import type { HttpBody, HttpCall } from "../../server/src/protocol/http/http-call.ts";
import { emptyReply } from "../../server/src/protocol/http/http-reply.ts";
import { InferHandler } from "../../server/src/protocol/http/infer/infer.ts";
import { JsonInferCodec } from "../../server/src/protocol/http/infer/infer-codec.ts";
import { parseDocument } from "../../server/src/protocol/http/json/json-access.ts";
import { HttpListener } from "../../server/src/protocol/http/transport/listener.ts";
import { BodyCollector } from "../../server/src/protocol/http/transport/read-body.ts";
import { SharedMemoryRegions } from "../../server/src/protocol/shared-memory.ts";
import { RawHttpClient } from "../fakes/raw-http-client.ts";
import { type LimitRow, Refused } from "./limit-row.ts";

const ignore = (): void => undefined;

function fakeCall(headers: Readonly<Record<string, string>>, body: (maxBytes: number) => HttpBody): HttpCall {
  return {
    method: "POST",
    path: "/",
    query: "",
    rawHeaders: [],
    arrivalMs: 0,
    errorType: "application/json",
    trace: undefined,
    signal: new AbortController().signal,
    isCancelled: false,
    header: (name) => headers[name],
    body: (maxBytes) => Promise.resolve(body(maxBytes)),
    stream: () => Readable.from([body(Number.POSITIVE_INFINITY).bytes]),
    hold: ignore,
    giveBack: () => undefined,
  };
}

function nested(depth: number): Buffer {
  return Buffer.from("[".repeat(depth) + "]".repeat(depth));
}

/** As the listener's body reader: nothing is kept once the limit is passed. */
function bodyOf(bytes: Buffer, size: number): (maxBytes: number) => HttpBody {
  return (maxBytes) => ({ bytes: size > maxBytes ? Buffer.alloc(0) : bytes, size });
}

function collectChunks(count: number): void {
  const collector = new BodyCollector(count + 1, 0);
  const chunk = Buffer.from(" ");
  for (let i = 0; i < count; i++) collector.add(chunk, { hold: ignore });
}

/** Sends a head of so many bytes, as Node counts them: target, names and values. */
async function sendHead(numBytes: number): Promise<void> {
  const listener = new HttpListener(
    { handle: () => Promise.resolve(emptyReply(200, "application/json")) },
    { address: "127.0.0.1", port: 0 },
    { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore },
  );
  const { port } = await listener.listen();
  const client = new RawHttpClient(port);
  const known = "/HostxContent-Length0Fill".length;
  client.send("GET", "/", "", { Fill: "a".repeat(numBytes - known) });
  const head = await client.received((bytes) => bytes.includes("\r\n\r\n"));
  client.socket.destroy();
  await listener.close(0);
  const status = head.toString("latin1", 9, head.indexOf("\r\n"));
  if (!status.startsWith("200")) throw new Refused(status.slice(0, 3), status);
}

/** The JSON of a request whose one input fills the rest of a body, most of which is never touched. */
async function inferBinary(numBytes: number): Promise<void> {
  const json = (size: number): string =>
    `{"inputs":[{"name":"X","datatype":"UINT8","shape":[${size}],"parameters":{"binary_data_size":${size}}}]}`;
  const head = json(numBytes - json(numBytes).length);
  const bytes = Buffer.allocUnsafeSlow(numBytes);
  bytes.write(head);
  const reached = new ServerError("unavailable", "the request has reached the model");
  const model = {
    name: "m",
    config: {},
    decoupled: false,
    infer: () => {
      throw reached;
    },
  } as unknown as ServedModel;
  const server = { tracing: { isOn: false }, model: () => model } as unknown as ModelServer;
  const options = { maxInputBytes: 1000, forwardPattern: undefined };
  const handler = new InferHandler(server, new JsonInferCodec(), options, new SharedMemoryRegions(false));
  const headers = { "inference-header-content-length": String(head.length) };
  await handler.handle("m", "", fakeCall(headers, bodyOf(bytes, numBytes))).catch((error: unknown) => {
    if (error !== reached) throw error;
  });
}

export const HTTP_ROWS: readonly LimitRow[] = [
  {
    name: "MAX_HTTP_HEADER_BYTES",
    value: 16_384,
    // Node refuses a head that reaches its limit (node_http_parser.cc, TrackHeader).
    run: (count) => sendHead(count - 1),
    status: "431",
    says: /^431 Request Header Fields Too Large$/,
  },
  { name: "MAX_HTTP_CHUNKS", value: 65_536, run: collectChunks, status: "invalid_argument", says: "limit" },
  {
    name: "DEFAULT_HTTP_MAX_INPUT_BYTES",
    value: 67_108_864,
    run: (count) =>
      readJsonBody(fakeCall({}, bodyOf(Buffer.from("{}"), count)), createDraft({}).http.maxInputBytes ?? 0),
    status: "413",
    says: "both",
  },
  {
    name: "MAX_HTTP_BINARY_BODY_BYTES",
    value: 2_147_483_647,
    run: inferBinary,
    status: "invalid_argument",
    says: "both",
  },
  {
    name: "MAX_JSON_DEPTH",
    value: 100,
    run: (count) => parseDocument(nested(count)),
    status: "invalid_argument",
    says: "limit",
  },
  {
    name: "MAX_JSON_DEPTH",
    value: 100,
    run: (count) => readJsonBody(fakeCall({}, bodyOf(nested(count), 2 * count)), 1000),
    status: "400",
    says: "limit",
  },
  {
    name: "MAX_JSON_KEYS",
    value: 65_536,
    run: (count) => parseDocument(Buffer.from(`[${"1,".repeat(count - 1)}1]`)),
    status: "invalid_argument",
    says: "limit",
  },
  {
    name: "MAX_JSON_STRING_BYTES",
    value: 1_048_576,
    run: (count) => new JsonInferCodec().readRequest(Buffer.from(`{"id":"${"a".repeat(count)}","inputs":[]}`)),
    status: "invalid_argument",
    says: "limit",
  },
];
