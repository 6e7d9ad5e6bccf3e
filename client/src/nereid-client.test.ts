import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { ClientError, NereidClient, tensor } from "./node.ts";

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}
type Answer = (response: ServerResponse, seen: Seen) => void;

let answer: Answer = (response) => response.end();
let lastSeen: Seen | undefined;
let url = "";
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { method = "", url: path = "", headers } = request;
    lastSeen = { method, path, headers, body: Buffer.concat(chunks) };
    answer(response, lastSeen);
  });
});
before(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

function answering(next: Answer, options: { readonly maxResponseBytes?: number } = {}): NereidClient {
  answer = next;
  return new NereidClient({ url: `${url}/`, headers: { "x-all": "1" }, ...options });
}

function json(status: number, text: string): Answer {
  return (response) => response.writeHead(status, { "content-type": "application/json" }).end(text);
}

function events(...chunks: (string | Uint8Array)[]): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of chunks) response.write(chunk);
    response.end();
  };
}

async function failure(work: Promise<unknown>): Promise<ClientError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ClientError, `expected a ClientError, got ${error}`);
  return error;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const input = tensor("INPUT0", "INT32", [1, 2], Int32Array.of(1, -2));

test("infer() sends JSON with the tensors behind it, and headers of the client", async () => {
  const client = answering(json(200, '{"model_name":"m","model_version":"2","outputs":[]}'));
  const texts = tensor("T", "BYTES", [1], ["é"]);
  const outputs = ["Y", { name: "Z", classCount: 3 }];
  await client
    .model("a b/c", 2)
    .infer({ inputs: [input, texts], outputs, id: "7", parameters: { sequence_id: 2n ** 63n } });
  const { method, path, headers, body } = lastSeen as Seen;
  assert.deepEqual([method, path, headers["x-all"]], ["POST", "/v2/models/a%20b%2Fc/versions/2/infer", "1"]);
  const length = Number(headers["inference-header-content-length"]);
  assert.equal(
    body.subarray(0, length).toString(),
    '{"id":"7","parameters":{"sequence_id":9223372036854775808,"binary_data_output":true},"inputs":[' +
      '{"name":"INPUT0","shape":[1,2],"datatype":"INT32","parameters":{"binary_data_size":8}},' +
      '{"name":"T","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}],"outputs":[' +
      '{"name":"Y","parameters":{"binary_data":true}},{"name":"Z","parameters":{"binary_data":true,"classification":3}}]}',
  );
  assert.equal(body.subarray(length).toString("hex"), "01000000feffffff02000000c3a9");
});

test("infer() gives binary and JSON outputs by name with the elements of their datatypes", async () => {
  const head =
    '{"id":"7","model_name":"m","model_version":"1","parameters":{"n":1.5,"big":9223372036854775807},"outputs":[' +
    '{"name":"A","datatype":"INT64","shape":[1],"parameters":{"binary_data_size":8}},' +
    '{"name":"B","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}},' +
    '{"name":"C","datatype":"FP32","shape":[2],"data":[0.5,-1]}]}';
  const client = answering((response) => {
    response.writeHead(200, { "inference-header-content-length": head.length });
    response.end(Buffer.concat([Buffer.from(head), Buffer.from("ffffffffffffff7f02000000c3a9", "hex")]));
  });
  const result = await client.model("m").infer({ inputs: [input] });
  assert.deepEqual(result.output("A", "INT64").data, BigInt64Array.of(2n ** 63n - 1n));
  assert.deepEqual(result.texts("B"), ["é"]);
  assert.deepEqual(result.output("C").data, Float32Array.of(0.5, -1));
  assert.deepEqual([result.id, result.modelName, result.modelVersion], ["7", "m", "1"]);
  assert.deepEqual(Object.fromEntries(result.parameters), { n: 1.5, big: 2n ** 63n - 1n });
  assert.throws(() => result.output("D"), /gave no output 'D', but 'A', 'B', 'C'/);
  assert.throws(() => result.output("A", "FP32"), /is INT64, not FP32/);
});

const hostile: [what: string, headerLength: string | undefined, body: string, message: RegExp][] = [
  ["a length that is no number", "1e3", "{}", /is '1e3', not a length/],
  ["a length beyond the body", "999999", "{}", /999999 bytes, the body has 2/],
  ["no JSON", undefined, "<html>", /no JSON object/],
  ["broken JSON", undefined, '{"model_name":"m","outputs":[{]}', /infer: Missing a name/],
  [
    "a size beyond the body",
    undefined,
    `{"model_name":"m","outputs":[{"name":"Y","datatype":"INT8","shape":[9],"parameters":{"binary_data_size":9}}]}`,
    /9 binary bytes announced, 0 are left/,
  ],
];
for (const [what, headerLength, body, message] of hostile) {
  test(`infer() refuses an answer with ${what}`, async () => {
    const headers = headerLength === undefined ? {} : { "inference-header-content-length": headerLength };
    const client = answering((response) => response.writeHead(200, headers).end(body));
    const error = await failure(client.model("m").infer({ inputs: [input] }));
    assert.equal(error.kind, "protocol");
    assert.match(error.message, message);
  });
}

test("a call refuses an answer that is longer than allowed, also without a length", async () => {
  const client = answering(
    (response) => {
      for (let k = 0; k < 20; k++) response.write("x".repeat(1000));
      response.end();
    },
    { maxResponseBytes: 10_000 },
  );
  const error = await failure(client.model("m").infer({ inputs: [input] }));
  assert.deepEqual(
    [error.kind, error.message],
    ["protocol", "the answer has more than maxResponseBytes (10000) bytes"],
  );
});

const errors: [status: number, body: string, message: string, isRetryable: boolean][] = [
  [400, '{"error":"no such input"}', "no such input", false],
  [503, '{"error":"Server exiting"}', "Server exiting", true],
  [502, "<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>", true],
  [500, "", "HTTP 500 Internal Server Error", false],
  [429, '{"detail":1}', '{"detail":1}', true],
  [400, "x".repeat(2000), `${"x".repeat(1000)}…`, false],
  [413, "x".repeat(100_000), "HTTP 413 Payload Too Large", false],
];
for (const [status, body, message, isRetryable] of errors) {
  test(`a call fails with the server's words for ${status} ${JSON.stringify(body.slice(0, 20))}`, async () => {
    const error = await failure(
      answering(json(status, body))
        .model("m")
        .infer({ inputs: [input] }),
    );
    assert.deepEqual([error.kind, error.status, error.message], ["server", status, message]);
    assert.equal(error.isRetryable, isRetryable);
  });
}

test("a call without a server fails as network error that can be tried again", async () => {
  const client = new NereidClient({ url: "http://127.0.0.1:1" });
  const error = await failure(client.isLive());
  assert.deepEqual([error.kind, error.isRetryable, error.status], ["network", true, undefined]);
  assert.match(error.message, /GET \/v2\/health\/live: connect ECONNREFUSED/);
});

test("a call fails as network error when the connection breaks in the answer", async () => {
  const client = answering((response) => {
    response.writeHead(200, { "content-length": 100 });
    response.write("{", () => response.destroy());
  });
  assert.equal((await failure(client.model("m").infer({ inputs: [input] }))).kind, "network");
});

test("timeoutMs ends a call that gets no answer, a signal with its own reason", async () => {
  const client = answering(() => undefined);
  const error = await failure(client.model("m").infer({ inputs: [input], timeoutMs: 20 }));
  assert.deepEqual([error.kind, error.isRetryable], ["timeout", false]);
  const controller = new AbortController();
  const reason = new Error("enough");
  const work = client.model("m").infer({ inputs: [input], timeoutMs: 60_000, signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(work, reason);
});

test("generate() sends numbers exactly and gives the document", async () => {
  const client = answering(json(200, '{"text_output":"hi","model_name":"m","n":18446744073709551615}'));
  const document = await client.model("m").generate({ text_input: "é", seed: 2n ** 64n - 1n, temperature: 0.5 });
  assert.deepEqual(document, { text_output: "hi", model_name: "m", n: 2n ** 64n - 1n });
  assert.equal(lastSeen?.body.toString(), '{"text_input":"é","seed":18446744073709551615,"temperature":0.5}');
});

test("generate() fails for an error with a good status", async () => {
  const error = await failure(answering(json(200, '{"error":"not one"}')).model("m").generate({}));
  assert.deepEqual([error.kind, error.status, error.message], ["server", 200, "not one"]);
});

test("generateStream() gives each event, with chunks that end within characters", async () => {
  const bytes = Buffer.from('data: {"t":"é😀"}\n\ndata: {"t":"b"}\n\n');
  const client = answering(events(bytes.subarray(0, 13), bytes.subarray(13, 16), bytes.subarray(16)));
  assert.deepEqual(await all(client.model("m").generateStream({})), [{ t: "é😀" }, { t: "b" }]);
  assert.deepEqual([lastSeen?.path, lastSeen?.headers.accept], ["/v2/models/m/generate_stream", "text/event-stream"]);
});

const brokenStreams: [what: string, answer: Answer, kind: string, message: RegExp][] = [
  ["an error event", events('data: {"t":1}\n\n', 'data: {"error":"out of blocks"}\n\n'), "server", /^out of blocks$/],
  ["an error instead of a stream", json(400, '{"error":"no such model"}'), "server", /^no such model$/],
  ["an error event with a bad status", json(400, 'data: {"error":"bad"}\n\n'), "server", /^bad$/],
  ["an event that is no JSON", events("data: [DONE]\n\n"), "protocol", /expected JSON/],
  ["an event that is no object", events("data: 1\n\n"), "protocol", /expected a JSON object/],
  ["an end within an event", events('data: {"t":1}\n'), "protocol", /ended within an event/],
];
for (const [what, next, kind, message] of brokenStreams) {
  test(`generateStream() fails for ${what}`, async () => {
    const error = await failure(all(answering(next).model("m").generateStream({})));
    assert.equal(error.kind, kind);
    assert.match(error.message, message);
  });
}

test("generateStream() ends the call when its reader stops early", async () => {
  let gone: (() => void) | undefined;
  const isGone = new Promise<void>((resolve) => {
    gone = resolve;
  });
  const client = answering((response) => {
    response.on("close", () => gone?.());
    response.write("data: {}\n\n");
  });
  for await (const event of client.model("m").generateStream({})) {
    assert.deepEqual(event, {});
    break;
  }
  await isGone;
});

test("isReady() tells no from failure", async () => {
  assert.equal(await answering(json(200, "")).isReady(), true);
  assert.equal(await answering(json(503, "")).isReady(), false);
  assert.equal(await answering(json(400, "no")).model("m").isReady(), false);
  const error = await failure(answering(json(404, "")).isReady());
  assert.deepEqual([error.kind, error.status], ["server", 404]);
});

test("metadata of server and model is checked", async () => {
  const server = { name: "triton", version: "2", extensions: ["x"] };
  assert.deepEqual(await answering(json(200, JSON.stringify(server))).serverMetadata(), server);
  const tensors = [{ name: "Y", datatype: "FP32", shape: [-1, 2] }];
  const model = { name: "m", versions: ["1"], platform: "p", inputs: tensors, outputs: tensors };
  assert.deepEqual(
    await answering(json(200, JSON.stringify(model)))
      .model("m")
      .metadata(),
    model,
  );
  for (const text of [
    "[]",
    '{"name":1}',
    '{"name":"a","version":"1","extensions":[1]}',
    '{"name":"a","version":"1","extensions":2}',
  ]) {
    assert.equal((await failure(answering(json(200, text)).serverMetadata())).kind, "protocol", text);
  }
});

test("statistics() keeps counters beyond 2^53", async () => {
  const client = answering(
    json(
      200,
      '{"model_stats":[{"name":"m","last_inference":9007199254740993,' +
        '"inference_stats":{"success":{"count":2,"ns":18446744073709551615}}}]}',
    ),
  );
  assert.deepEqual(await client.model("m").statistics(), [
    {
      name: "m",
      version: "",
      last_inference: 9007199254740993n,
      inference_count: 0,
      execution_count: 0,
      inference_stats: { success: { count: 2, ns: 18446744073709551615n } },
      batch_stats: [],
      response_stats: {},
      memory_usage: [],
    },
  ]);
});

test("repository calls send what they mean", async () => {
  const client = answering(json(200, '[{"name":"m","version":"1","state":"READY"},{"name":"n"}]'));
  assert.deepEqual(await client.repository.index({ isReady: true }), [
    { name: "m", version: "1", state: "READY", reason: "" },
    { name: "n", version: "", state: "", reason: "" },
  ]);
  assert.equal(lastSeen?.body.toString(), '{"ready":true}');
  await client.repository.load("m", { config: { max_batch_size: 4 } });
  assert.equal(lastSeen?.path, "/v2/repository/models/m/load");
  assert.equal(lastSeen?.body.toString(), '{"parameters":{"config":"{\\"max_batch_size\\":4}"}}');
  await client.repository.unload("m", { unloadDependents: true });
  assert.equal(lastSeen?.body.toString(), '{"parameters":{"unload_dependents":true}}');
  await client.repository.unload("m");
  assert.equal(lastSeen?.body.toString(), "{}");
});

test("NereidClient refuses addresses, names and versions that cannot be", () => {
  assert.throws(() => new NereidClient({ url: "ftp://x" }), TypeError);
  assert.throws(() => new NereidClient({ url: "localhost" }), TypeError);
  const client = new NereidClient({ url: "http://x" });
  for (const name of ["", ".", ".."]) assert.throws(() => client.model(name), RangeError);
  for (const version of ["", "x", "-1", "1/..", 1.5]) assert.throws(() => client.model("m", version), RangeError);
});
