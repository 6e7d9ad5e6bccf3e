import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { type Answer, RawHttpClient } from "../../../../tests/fakes/raw-http-client.ts";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelServer, ServedModel, TensorMetadata } from "../../core/model-server.ts";
import { ResponseStream } from "../../core/response-stream.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Logger } from "../../observe/log.ts";
import { createHttpFrontend, type HttpFrontend, type HttpFrontendOptions } from "./frontend.ts";

const MAX_INPUT_BYTES = 4096;
const SILENT: Logger = { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore };

function ignore(): undefined {
  return undefined;
}

type Run = (
  request: InferRequest,
  respond: (outputs: readonly Tensor[], isFinal: boolean) => void,
) => void | Promise<void>;

/** Models of a few lines, by name; what the front end asks beyond them fails. */
class FakeServer {
  state: ModelServer["state"] = "running";
  readonly requests: InferRequest[] = [];
  readonly #models = new Map<string, ServedModel>();

  add(name: string, inputs: readonly TensorMetadata[], run: Run, decoupled = false): void {
    const model = {
      name,
      version: "1",
      config: { name, max_batch_size: 0 },
      inputs: new Map(inputs.map((input) => [input.name, input])),
      outputs: new Map(),
      decoupled,
      label: ignore,
      infer: (request: InferRequest) => this.#infer(name, request, run),
    };
    this.#models.set(name, model as unknown as ServedModel);
  }

  #infer(name: string, request: InferRequest, run: Run): ResponseStream {
    this.requests.push(request);
    const stream = new ResponseStream();
    const head = { modelName: name, modelVersion: "1", id: request.id, parameters: new Map() };
    const respond = (outputs: readonly Tensor[], final: boolean): void =>
      stream.push({ ...head, outputs, final, empty: final && outputs.length === 0 } satisfies InferResponse);
    try {
      Promise.resolve(run(request, respond)).catch((error: unknown) => stream.fail(ServerError.from(error)));
    } catch (error) {
      stream.fail(ServerError.from(error));
    }
    return stream;
  }

  asServer(): ModelServer {
    const server = {
      state: "running",
      name: "fake",
      version: "0",
      extensions: [],
      tracing: { isOn: false },
      ready: () => true,
      modelReady: async (name: string) => this.#models.has(name),
      model: (name: string) => {
        const model = this.#models.get(name);
        if (model !== undefined) return model;
        throw new ServerError("not_found", `Request for unknown model: '${name}' is not found`);
      },
      index: () => {
        throw new TypeError("a secret of the server");
      },
    };
    Object.defineProperty(server, "state", { get: () => this.state });
    return server as unknown as ModelServer;
  }
}

const fake = new FakeServer();
let frontend: HttpFrontend;
let port = 0;

const OPTIONS: HttpFrontendOptions = {
  address: "127.0.0.1",
  port: 0,
  maxInputBytes: MAX_INPUT_BYTES,
  forwardPattern: /^x-fwd-/i,
  restricted: [{ apis: ["logging"], key: "Admin-Key", value: "open" }],
};

before(async () => {
  const identity: Run = (request, respond) => respond(request.inputs, true);
  fake.add("floats", [{ name: "X", datatype: "FP32", shape: [-1] }], identity);
  fake.add("bytes", [{ name: "X", datatype: "BYTES", shape: [-1] }], identity);
  fake.add("word", [{ name: "X", datatype: "BYTES", shape: [1] }], identity);
  fake.add("halves", [{ name: "X", datatype: "FP16", shape: [-1] }], identity);
  fake.add("refuses", [], () => {
    throw new ServerError("invalid_argument", "refused");
  });
  fake.add("queued", [], () => {
    throw new ServerError("unavailable", "gave up", { wasQueued: true });
  });
  fake.add("fails", [], async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    throw new ServerError("internal", "failed");
  });
  fake.add("never", [], ignore);
  fake.add(
    "words",
    [{ name: "text", datatype: "BYTES", shape: [1] }],
    async (request, respond) => {
      const words = Buffer.from(request.inputs[0]?.data.subarray(4) ?? [])
        .toString()
        .split(" ");
      for (const word of words) {
        await new Promise((resolve) => setImmediate(resolve));
        respond([{ name: "word", datatype: "BYTES", shape: [1], data: packBytesElements([word]) }], false);
      }
      respond([], true);
    },
    true,
  );
  frontend = createHttpFrontend({ server: fake.asServer(), options: OPTIONS, log: SILENT });
  ({ port } = await frontend.listen());
});

after(() => frontend.close(0));

async function ask(path: string, body: Buffer | string = "", headers: Record<string, string> = {}): Promise<Answer> {
  const client = new RawHttpClient(port);
  client.send(body === "GET" ? "GET" : "POST", path, body === "GET" ? "" : body, headers);
  const answer = await client.answer();
  client.socket.destroy();
  return answer;
}

const X = '{"name":"X","datatype":"FP32","shape":[2],"data":[1,0.1]}';

test("an inference by JSON is answered by JSON, without Date and Server headers", async () => {
  const { status, headers, body } = await ask("/v2/models/floats/infer", `{"id":"7","inputs":[${X}]}`);
  assert.equal(status, "200 OK");
  assert.equal(
    body.toString(),
    '{"id":"7","model_name":"floats","model_version":"1","outputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1.0,0.10000000149011612]}]}',
  );
  assert.equal(headers.get("content-type"), "application/json");
  assert.deepEqual([headers.get("date"), headers.get("server")], [undefined, undefined]);
});

test("binary tensors come and go behind the JSON, compressed or not", async () => {
  const head =
    '{"inputs":[{"name":"X","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}';
  const tail = Buffer.from(Float32Array.of(1.5, -2).buffer);
  const body = gzipSync(Buffer.concat([Buffer.from(head), tail]));
  const answer = await ask("/v2/models/floats/infer", body, {
    "Content-Encoding": "gzip",
    "Accept-Encoding": "gzip",
    "Inference-Header-Content-Length": String(head.length),
  });
  const plain = gunzipSync(answer.body);
  const length = Number(answer.headers.get("inference-header-content-length"));
  assert.equal(answer.headers.get("content-type"), "application/octet-stream");
  assert.match(plain.subarray(0, length).toString(), /"parameters":\{"binary_data_size":8\}\}\]\}$/);
  assert.deepEqual(plain.subarray(length), tail);
});

test("a raw body becomes the one input, and its answer is binary", async () => {
  const raw = { "Inference-Header-Content-Length": "0" };
  const { headers, body } = await ask("/v2/models/floats/infer", Buffer.from(Float32Array.of(1, 2, 3).buffer), raw);
  assert.match(body.subarray(0, Number(headers.get("inference-header-content-length"))).toString(), /"shape":\[3\]/);
  const text = await ask("/v2/models/word/infer", "hello", raw);
  assert.ok(text.body.toString("latin1").endsWith('"binary_data_size":9}}]}\u0005\0\0\0hello'));
});

const JSON_TYPE = "application/json";
const TEXT_TYPE = "text/plain";
const ERRORS: [string, string, Record<string, string>, string, string, string][] = [
  ["/v2/models/nope/infer", "{}", {}, "404", TEXT_TYPE, "Request for unknown model: 'nope' is not found"],
  [
    "/v2/models/words/infer",
    "{}",
    {},
    "501",
    TEXT_TYPE,
    "HTTP end point doesn't support models with decoupled transaction policy",
  ],
  [
    "/v2/models/floats/infer",
    "{",
    {},
    "500",
    JSON_TYPE,
    "failed to parse the request JSON buffer: Missing a name for object member. at 1",
  ],
  [
    "/v2/models/floats/infer",
    "{}",
    {},
    "500",
    JSON_TYPE,
    "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
  ],
  [
    "/v2/models/floats/infer",
    `{"inputs":[${X}],"parameters":{"triton_x":1}}`,
    {},
    "400",
    JSON_TYPE,
    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
  ],
  [
    "/v2/models/floats/infer",
    "x",
    { "Inference-Header-Content-Length": "2" },
    "400",
    TEXT_TYPE,
    "inference header size should be in range (0, 1), got: 2",
  ],
  [
    "/v2/models/floats/infer",
    "x",
    { "Inference-Header-Content-Length": "a" },
    "400",
    TEXT_TYPE,
    "Unable to parse Inference-Header-Content-Length, got: a",
  ],
  ["/v2/models/floats/infer", "x", { "Content-Encoding": "br" }, "501", TEXT_TYPE, "Unsupported compression type"],
  [
    "/v2/models/floats/infer",
    "x".repeat(4097),
    {},
    "400",
    JSON_TYPE,
    "request JSON size of 4097 bytes exceeds the maximum allowed input size of 4096 bytes. Use --http-max-input-size to increase the limit.",
  ],
  ["/v2/models/refuses/generate", "{}", {}, "400", JSON_TYPE, "refused"],
  ["/v2/models/fails/generate", "{}", {}, "400", JSON_TYPE, "failed"],
  ["/v2/models/refuses/infer", '{"inputs":[]}', {}, "400", JSON_TYPE, "refused"],
  ["/v2/models/fails/infer", '{"inputs":[]}', {}, "500", TEXT_TYPE, "failed"],
  ["/v2/models/queued/infer", '{"inputs":[]}', {}, "503", TEXT_TYPE, "gave up"],
  [
    "/v2/models/halves/generate",
    '{"X":[1]}',
    {},
    "400",
    JSON_TYPE,
    "receiving FP16 data via JSON is not supported. Please use the binary data format for input X",
  ],
  [
    "/v2/models/words/generate",
    '{"text":"a b"}',
    {},
    "200",
    JSON_TYPE,
    "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses",
  ],
  ["/v2/repository/index", "", {}, "500", JSON_TYPE, "Internal error"],
  [
    "/v2/systemsharedmemory/unregister",
    "",
    {},
    "501",
    JSON_TYPE,
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
  ],
  [
    "/v2/logging",
    "{}",
    { "admin-key": "shut" },
    "403",
    TEXT_TYPE,
    "This API is restricted, expecting header 'Admin-Key'",
  ],
  ["/v2/health/live", "", {}, "405", TEXT_TYPE, "Method Not Allowed"],
  ["/v2/nothing", "", {}, "404", TEXT_TYPE, "Not Found"],
];
for (const [path, body, headers, status, contentType, error] of ERRORS) {
  test(`POST ${path} with ${body.slice(0, 24)} is answered ${status} ${error.slice(0, 40)}`, async () => {
    const answer = await ask(path, body, headers);
    assert.equal(answer.status.slice(0, 3), status);
    assert.deepEqual(JSON.parse(answer.body.toString()), { error });
    assert.equal(answer.headers.get("content-type"), contentType);
  });
}

test("headers that match the pattern reach the model as parameters", async () => {
  await ask("/v2/models/floats/infer", `{"inputs":[${X}]}`, { "X-Fwd-User": "ann", Other: "no" });
  assert.deepEqual([...(fake.requests.at(-1)?.parameters ?? [])], [["X-Fwd-User", "ann"]]);
});

test("generate gives scalars and lists under the names of the tensors", async () => {
  const { body } = await ask("/v2/models/bytes/generate", '{"X":["a","b"],"extra":1}');
  assert.equal(body.toString(), '{"X":["a","b"],"model_name":"bytes","model_version":"1"}');
  assert.equal(fake.requests.at(-1)?.parameters.get("extra"), 1);
});

test("generate_stream sends one event for each response, as each comes", async () => {
  const client = new RawHttpClient(port);
  client.send("POST", "/v2/models/words/generate_stream", '{"text":"one two"}');
  const text = (await client.received((bytes) => bytes.includes("0\r\n\r\n"))).toString();
  client.socket.destroy();
  assert.match(text, /Content-Type: text\/event-stream; charset=utf-8\r\n/);
  const events = text.match(/data: .*\n\n/g);
  assert.deepEqual(events, [
    'data: {"model_name":"words","model_version":"1","word":"one"}\n\n',
    'data: {"model_name":"words","model_version":"1","word":"two"}\n\n',
  ]);
});

test("a client that leaves aborts the signal of its request", async () => {
  const client = new RawHttpClient(port);
  const before = fake.requests.length;
  client.send("POST", "/v2/models/never/infer", '{"inputs":[]}');
  while (fake.requests.length === before) await new Promise((resolve) => setImmediate(resolve));
  const { signal } = fake.requests.at(-1) as InferRequest;
  assert.equal(signal.aborted, false);
  client.socket.destroy();
  await once(signal, "abort");
});

test("a client that leaves before anybody listened finds its signal aborted", async () => {
  const client = new RawHttpClient(port);
  const before = fake.requests.length;
  client.send("POST", "/v2/models/never/infer", '{"inputs":[]}');
  while (fake.requests.length === before) await new Promise((resolve) => setImmediate(resolve));
  client.socket.destroy();
  const request = fake.requests.at(-1) as InferRequest;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(request.signal.aborted, true);
});

test("pipelined requests and chunked bodies are answered in order", async () => {
  const client = new RawHttpClient(port);
  const chunked = `${(X.length + 13).toString(16)}\r\n{"inputs":[${X}]}\r\n0\r\n\r\n`;
  client.send("GET", "/v2/models/floats/ready");
  client.socket.write(
    `POST /v2/models/floats/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
  );
  client.send("GET", "/v2/models/nope/ready");
  const statuses = [await client.answer(), await client.answer(), await client.answer()].map(({ status }) => status);
  client.socket.destroy();
  assert.deepEqual(statuses, ["200 OK", "200 OK", "400 Bad Request"]);
});

test("65,536 chunks are taken, one more is not", async () => {
  for (const [count, expected] of [
    [65_536, "request JSON size of 65536 bytes"],
    [65_537, "Chunked request body exceeds maximum of 65536 non-empty chunks."],
  ] as const) {
    const client = new RawHttpClient(port);
    client.socket.write("POST /v2/models/floats/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.socket.write(`${"1\r\nx\r\n".repeat(count)}0\r\n\r\n`);
    const { status, body } = await client.answer();
    client.socket.destroy();
    assert.equal(status, "400 Bad Request");
    assert.ok(body.toString().includes(expected), body.toString());
  }
});

test("close() answers what is in flight, says that the connection ends, and takes nothing new", async () => {
  const slow = new FakeServer();
  let finish: () => void = ignore;
  slow.add("slow", [], (_, respond) => {
    finish = () => respond([{ name: "Y", datatype: "INT8", shape: [1], data: Uint8Array.of(1) }], true);
  });
  const own = createHttpFrontend({ server: slow.asServer(), options: OPTIONS, log: SILENT });
  const bound = await own.listen();
  const idle = new RawHttpClient(bound.port);
  idle.send("GET", "/v2/health/ready");
  await idle.answer();
  const busy = new RawHttpClient(bound.port);
  busy.send("POST", "/v2/models/slow/infer", '{"inputs":[]}');
  while (slow.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  slow.state = "exiting";
  const closed = own.close();
  await once(idle.socket, "close");
  finish();
  const { status, headers } = await busy.answer();
  assert.deepEqual([status, headers.get("connection")], ["200 OK", "close"]);
  await closed;
  await assert.rejects(once(new RawHttpClient(bound.port).socket, "connect"), { code: "ECONNREFUSED" });
});

test("health says that the server is exiting", async () => {
  fake.state = "exiting";
  const answer = await ask("/v2/health/ready", "GET");
  fake.state = "running";
  assert.equal(answer.status, "503 Service Unavailable");
  assert.equal(answer.body.toString(), '{"error":"Server exiting"}');
});
