/** Retries, hedging, limits, sequences and compression of the HTTP client, over both of its ways to a server. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync, inflateSync } from "node:zlib";
import { ClientError, NereidClient, type NodeClientOptions, tensor } from "./node.ts";

interface Received {
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  readonly socket: IncomingMessage["socket"];
  readonly path: string;
}

const OK = '{"model_name":"m","outputs":[]}';
const INPUTS = [tensor("X", "INT8", [1], Int8Array.of(1))];
const NO_WAIT = { initialBackoffMs: 0 };

let answer: (response: ServerResponse, received: Received, count: number) => void = (response) => response.end(OK);
let received: Received[] = [];
let url = "";
/** Number of the client in use: the first part of its paths. */
let generation = 0;
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { headers, socket, url: path = "" } = request;
    const prefix = `/${generation}`;
    // Requests that an earlier test gave up may come late.
    if (!path.startsWith(`${prefix}/`)) return;
    const one = { headers, socket, path: path.slice(prefix.length), body: Buffer.concat(chunks) };
    received.push(one);
    answer(response, one, received.length);
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

/** `with`: by connections of its own, or by fetch. */
function answering(next: typeof answer, options: Partial<NodeClientOptions> = {}): NereidClient {
  answer = next;
  received = [];
  generation += 1;
  return new NereidClient({ url: `${url}/${generation}`, retry: NO_WAIT, ...options });
}

const WAYS: readonly [way: string, options: Partial<NodeClientOptions>][] = [
  ["connections of its own", {}],
  ["fetch", { fetch: globalThis.fetch }],
];

function failing(status: number, times: number): typeof answer {
  return (response, _, count) => {
    if (count <= times) response.writeHead(status).end('{"error":"no"}');
    else response.end(OK);
  };
}

for (const [way, options] of WAYS) {
  test(`infer() over ${way} is sent again while the server refuses it`, async () => {
    const result = await answering(failing(503, 2), options).model("m").infer({ inputs: INPUTS });
    assert.deepEqual([result.modelName, received.length], ["m", 3]);
    assert.deepEqual(received[0]?.body, received[2]?.body);
  });

  test(`infer() over ${way} gives up after maxAttempts`, async () => {
    const client = answering(failing(503, 9), { ...options, retry: { ...NO_WAIT, maxAttempts: 2 } });
    await assert.rejects(client.model("m").infer({ inputs: INPUTS }), { status: 503, model: "m" });
    assert.equal(received.length, 2);
  });

  test(`infer() over ${way} is not sent again when the model may have run, but for an idempotent call`, async () => {
    const breaking: typeof answer = (response, { socket }, count) => {
      if (count === 1) socket.destroy();
      else response.end(OK);
    };
    await assert.rejects(answering(breaking, options).model("m").infer({ inputs: INPUTS }), { kind: "network" });
    assert.equal(received.length, 1);
    await answering(breaking, options).model("m").infer({ inputs: INPUTS, isIdempotent: true });
    assert.equal(received.length, 2);
  });

  test(`infer() over ${way} compresses requests and reads compressed responses`, async () => {
    const head =
      '{"model_name":"m","outputs":[{"name":"Y","datatype":"INT8","shape":[3],"parameters":{"binary_data_size":3}}]}';
    const client = answering((response) => {
      response.writeHead(200, { "content-encoding": "gzip", "inference-header-content-length": head.length });
      response.end(gzipSync(Buffer.concat([Buffer.from(head), Buffer.from([1, 2, 3])])));
    }, options);
    const inputs = [tensor("X", "INT8", [1000], new Int8Array(1000))];
    const inflate = { gzip: gunzipSync, deflate: inflateSync };
    for (const compression of ["gzip", "deflate"] as const) {
      received = [];
      const result = await client.model("m").infer({ inputs, compression, responseCompression: "gzip" });
      assert.deepEqual(result.output("Y", "INT8").data, Int8Array.of(1, 2, 3));
      const { headers, body } = received[0] as Received;
      assert.deepEqual([headers["content-encoding"], headers["accept-encoding"]], [compression, "gzip"]);
      assert.equal(inflate[compression](body).length, Number(headers["inference-header-content-length"]) + 1000);
    }
  });

  test(`a hedged infer() over ${way} takes the faster answer and cancels the slower`, {
    timeout: 120_000,
  }, async () => {
    let slowGone: (() => void) | undefined;
    const isSlowGone = new Promise<void>((resolve) => {
      slowGone = resolve;
    });
    const client = answering((response, _, count) => {
      if (count === 1) response.on("close", () => slowGone?.());
      else response.end(OK);
    }, options);
    await client.model("m").infer({ inputs: INPUTS, hedge: { delayMs: 5 } });
    await isSlowGone;
    assert.equal(received.length, 2);
  });

  test(`the limit of the client holds over ${way}, and the signal of a call gives its reason`, async () => {
    const client = answering(() => undefined, { ...options, timeoutMs: 20 });
    await assert.rejects(client.model("m").infer({ inputs: INPUTS, id: "7" }), {
      kind: "timeout",
      model: "m",
      requestId: "7",
    });
    const reason = new Error("enough");
    const call = client.model("m").infer({ inputs: INPUTS, timeoutMs: 120_000, signal: AbortSignal.abort(reason) });
    await assert.rejects(call, reason);
  });
}

test("a hedged infer() fails at once when its only request fails", async () => {
  const client = answering((response) => response.writeHead(400).end('{"error":"bad"}'));
  const hedge = { delayMs: 2 ** 30 };
  await assert.rejects(client.model("m").infer({ inputs: INPUTS, hedge }), { message: "bad" });
  assert.equal(received.length, 1);
});

test("the budget of a client ends retries while a server is in trouble", async () => {
  const client = answering((response) => response.writeHead(503).end('{"error":"full"}'));
  for (let k = 0; k < 10; k++) await assert.rejects(client.model("m").infer({ inputs: INPUTS }), { status: 503 });
  // Two calls with three attempts each; the third finds the budget at half. Then each call is sent once.
  assert.equal(received.length, 13);
});

test("retry: false sends a call once; Retry-After beyond the limit of the call ends it", async () => {
  const refusing: typeof answer = (response) => response.writeHead(429, { "retry-after": "3600" }).end("{}");
  await assert.rejects(answering(refusing).model("m").infer({ inputs: INPUTS, retry: false }), {
    retryAfterMs: 3_600_000,
  });
  await assert.rejects(answering(refusing).model("m").infer({ inputs: INPUTS, timeoutMs: 60_000 }), { status: 429 });
  assert.equal(received.length, 1);
});

test("errors name the model, the request and the usual fix", async () => {
  const client = answering((response) => response.writeHead(404).end(`{"error":"Request for unknown model: 'm'"}`));
  const error: unknown = await client
    .model("m")
    .infer({ inputs: INPUTS, id: "9" })
    .catch((thrown) => thrown);
  assert.ok(error instanceof ClientError);
  assert.deepEqual([error.status, error.model, error.requestId], [404, "m", "9"]);
  assert.match(error.hint ?? "", /repository\.index\(\)/);
  const unreachable: unknown = await new NereidClient({ url: "http://127.0.0.1:1", retry: NO_WAIT })
    .isLive()
    .catch((thrown) => thrown);
  assert.ok(unreachable instanceof ClientError);
  assert.equal(unreachable.isUnsent, true);
  assert.match(unreachable.hint ?? "", /8000 for HTTP and 8001 for gRPC/);
});

test("a sequence numbers its requests, keeps their order and is never hedged", async () => {
  const client = answering((response) => response.end(OK));
  const sequence = client.model("m").sequence("dialogue 1");
  await Promise.all([
    sequence.infer({ inputs: INPUTS }),
    sequence.infer({ inputs: INPUTS, parameters: { more: 1.5 } }),
    sequence.end({ inputs: INPUTS }),
  ]);
  const parameters = received.map(({ body }) => /"parameters":(\{.*?\})/.exec(body.toString())?.[1] ?? "{}");
  const places = parameters.map((text) => JSON.parse(text));
  assert.deepEqual(
    places.map(({ sequence_id, sequence_start, sequence_end }) => [sequence_id, sequence_start, sequence_end]),
    [
      ["dialogue 1", true, false],
      ["dialogue 1", false, false],
      ["dialogue 1", false, true],
    ],
  );
  await assert.rejects(sequence.infer({ inputs: INPUTS }), RangeError);
  assert.throws(() => client.model("m").sequence(0), RangeError);
  const hedged = { inputs: INPUTS, sequence: { id: 1 }, hedge: { delayMs: 1 } };
  await assert.rejects(client.model("m").infer(hedged), /cannot be hedged/);
});

test("connections stay open, and no more are opened than allowed", async () => {
  const client = answering((response) => response.end(OK), { pool: { maxConnections: 2 } });
  for (let k = 0; k < 3; k++) await client.model("m").infer({ inputs: INPUTS });
  assert.equal(new Set(received.map(({ socket }) => socket)).size, 1);
  await Promise.all(Array.from({ length: 9 }, () => client.model("m").infer({ inputs: INPUTS })));
  assert.equal(new Set(received.map(({ socket }) => socket)).size, 2);
  client.close();
});

test("large tensors arrive as views of the response", async () => {
  const elements = new Float64Array(100_000).map((_, index) => index);
  const size = elements.byteLength;
  const head = `{"model_name":"m","outputs":[{"name":"Y","datatype":"FP64","shape":[100000],"parameters":{"binary_data_size":${size}}}]}`;
  const client = answering((response) => {
    response.writeHead(200, { "inference-header-content-length": head.length });
    response.end(Buffer.concat([Buffer.from(head), Buffer.from(elements.buffer)]));
  });
  const { data } = (await client.model("m").infer({ inputs: INPUTS })).output("Y", "FP64");
  assert.deepEqual(data, elements);
  assert.ok(data.byteOffset >= head.length, "the elements lie behind the JSON of the response");
});

test("headers and query of a call reach the server", async () => {
  const client = answering((response) => response.end(OK), { headers: { "x-all": "1", "x-own": "1" } });
  await client.model("m").infer({ inputs: INPUTS, headers: { "x-own": "2" }, query: { a: "b c" } });
  const { headers, path } = received[0] as Received;
  assert.deepEqual([headers["x-all"], headers["x-own"], path], ["1", "2", "/v2/models/m/infer?a=b+c"]);
});
