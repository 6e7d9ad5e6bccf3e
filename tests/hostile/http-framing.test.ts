import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { createGzip } from "node:zlib";
import { KeepAliveClient, sendRaw } from "../support/hostile-http.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound, residentBytes, SIMPLE_REQUEST } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const SIMPLE = "/v2/models/simple/infer";
const MIB = 1024 * 1024;
const CRLF = "\r\n";
const LIVE = `GET /v2/health/live HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`;

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({
    repositories: [EXAMPLES],
    flags: ["--model-control-mode=explicit", "--load-model=*"],
  });
});
after(() => server.stop());

function post(headers: readonly string[], body = ""): string {
  return [`POST ${SIMPLE} HTTP/1.1`, "Host: x", ...headers, "", body].join(CRLF);
}

function chunk(data: string): string {
  return `${data.length.toString(16)}${CRLF}${data}${CRLF}`;
}

test("a body in chunks of one byte is read whole", async () => {
  const pieces = [post(["Transfer-Encoding: chunked"]), [...SIMPLE_REQUEST].map(chunk).join(""), `0${CRLF}${CRLF}`];
  const { statuses } = await sendRaw(server.http, pieces, 1);
  assert.deepEqual(statuses, [200]);
});

test("more than 65,536 chunks are refused with the reason", async () => {
  const pieces = [post(["Transfer-Encoding: chunked"]), chunk(" ").repeat(65_537), `0${CRLF}${CRLF}`];
  const { statuses, text } = await sendRaw(server.http, pieces, 1);
  assert.deepEqual(statuses, [400]);
  assert.match(text, /Chunked request body exceeds maximum of 65536 non-empty chunks/);
});

const REFUSED: readonly [what: string, request: string][] = [
  [
    "Content-Length beside Transfer-Encoding",
    post(["Content-Length: 4", "Transfer-Encoding: chunked"], `0${CRLF}${CRLF}`),
  ],
  ["two lengths", post(["Content-Length: 4", "Content-Length: 5"], "aaaaa")],
  ["a negative length", post(["Content-Length: -1"])],
  ["a length that is no number", post(["Content-Length: 0x10"])],
  ["a length beyond 64 bits", post(["Content-Length: 99999999999999999999"])],
  ["a chunk of 2^64 bytes", post(["Transfer-Encoding: chunked"], `10000000000000000${CRLF}`)],
  ["a chunk size that is no number", post(["Transfer-Encoding: chunked"], `zz${CRLF}`)],
  ["a transfer encoding nobody knows", post(["Transfer-Encoding: chunked, gzip"], "")],
  ["two hosts", `GET /v2 HTTP/1.1${CRLF}Host: x${CRLF}hOST: y${CRLF}${CRLF}`],
  ["white space before a colon", post(["Content-Length : 4"], "aaaa")],
  ["a line feed alone after a header", "GET /v2 HTTP/1.1\nHost: x\n\n"],
  ["headers of 20 KB", `GET /v2 HTTP/1.1${CRLF}Host: x${CRLF}X: ${"x".repeat(20_000)}${CRLF}${CRLF}`],
  ["an absolute target of another scheme", `GET a:b HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`],
  ["a version to come", `GET /v2 HTTP/3.0${CRLF}Host: x${CRLF}${CRLF}`],
  ["a method nobody knows", `BREW /v2 HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`],
  ["a NUL in the target", `GET /v2\0 HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`],
  ["a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20)],
  ["the preface of HTTP/2", `PRI * HTTP/2.0${CRLF}${CRLF}SM${CRLF}${CRLF}`],
];
for (const [what, request] of REFUSED) {
  test(`${what} is refused and the connection closed`, async () => {
    const { statuses, isClosed } = await sendRaw(server.http, [request]);
    assert.equal(isClosed, true);
    assert.ok(statuses.length <= 1, String(statuses));
    assert.ok(
      statuses.every((status) => status === 400 || status === 431),
      String(statuses),
    );
  });
}

const ANSWERED: readonly [what: string, request: string, statuses: readonly number[]][] = [
  ["HTTP/1.0 without Host", `GET /v2/health/live HTTP/1.0${CRLF}${CRLF}`, [200]],
  ["the absolute form of a target", `GET http://h/v2/health/live HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`, [200]],
  ["HTTP/1.1 without Host", `GET /v2/health/live HTTP/1.1${CRLF}${CRLF}`, [200]],
  ["HTTP/0.9", `GET /v2/health/live${CRLF}${CRLF}`, [200]],
  ["a target of 10 KB", `GET /${"a".repeat(10_000)} HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`, [404]],
  ["OPTIONS of everything", `OPTIONS * HTTP/1.1${CRLF}Host: x${CRLF}${CRLF}`, [404]],
  ["a header of 8 KB", `GET /v2/health/live HTTP/1.1${CRLF}Host: x${CRLF}X: ${"x".repeat(8192)}${CRLF}${CRLF}`, [200]],
  [
    "headers named as properties",
    LIVE.replace("Host: x", `Host: x${CRLF}__proto__: x${CRLF}constructor: y${CRLF}toString: z`),
    [200],
  ],
  ["a hundred requests at once", LIVE.repeat(100), Array.from({ length: 100 }, () => 200)],
  ["rubbish behind a good request", `${LIVE}\0\xff rubbish${CRLF}${CRLF}`, [200, 400]],
  [
    "rubbish behind an inference",
    `${post([`Content-Length: ${SIMPLE_REQUEST.length}`], SIMPLE_REQUEST)}\0\xff`,
    [200, 400],
  ],
  ["100-continue", post(["Content-Length: 2", "Expect: 100-continue"], "{}"), [100, 500]],
  ["an expectation nobody knows", post(["Content-Length: 2", "Expect: tea"], "{}"), [417]],
  [
    "an upgrade",
    `GET /v2/health/live HTTP/1.1${CRLF}Host: x${CRLF}Connection: Upgrade${CRLF}Upgrade: websocket${CRLF}${CRLF}`,
    [200],
  ],
];
for (const [what, request, expected] of ANSWERED) {
  test(`${what} is answered with ${[...new Set(expected)].join(" and ")}`, async () => {
    const { statuses } = await sendRaw(server.http, [request], expected.length);
    assert.deepEqual(statuses, expected);
  });
}

test("clients that never finish their request hold up nobody", async () => {
  const halves = [
    LIVE.slice(0, 20),
    post(["Content-Length: 100"], "{"),
    post(["Transfer-Encoding: chunked"], "5\r\nab"),
  ];
  const sockets = Array.from({ length: 300 }, (_, i) => {
    const socket = connect(server.http, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write(halves[i % halves.length] ?? "");
    return socket;
  });
  await Promise.all(Array.from({ length: 20 }, () => assertSound(server)));
  for (const socket of sockets) socket.destroy();
});

describe("compressed bodies that grow a thousandfold", () => {
  /** 256 MiB of zeros, about 256 KB: four times the limit. */
  const bomb = (): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      const gzip = createGzip();
      const chunks: Buffer[] = [];
      gzip.on("data", (data: Buffer) => chunks.push(data));
      gzip.on("error", reject);
      gzip.on("end", () => resolve(Buffer.concat(chunks)));
      const zeros = Buffer.alloc(MIB);
      let left = 256;
      const feed = (): void => {
        while (left-- > 0) {
          if (gzip.write(zeros)) continue;
          gzip.once("drain", feed);
          return;
        }
        gzip.end();
      };
      feed();
    });

  test("are refused without the memory that they ask for", async () => {
    const body = await bomb();
    using client = new KeepAliveClient(server.http, 4);
    const headers = { "Content-Encoding": "gzip" };
    await client.send({ path: SIMPLE, body, headers });
    const bytesBefore = await residentBytes(server.pid);
    const replies = await Promise.all(Array.from({ length: 8 }, () => client.send({ path: SIMPLE, body, headers })));
    for (const { status, body: text } of replies) {
      assert.equal(status, 400);
      assert.match(text.toString(), /Decompressed data size exceeds the maximum allowed value of 67108864 bytes/);
    }
    const growth = (await residentBytes(server.pid)) - bytesBefore;
    assert.ok(growth < 320 * MIB, `memory grew by ${growth} bytes`);
    await assertSound(server);
  });
});

test("a body announced at 2 GiB costs nothing until it comes", async () => {
  const bytesBefore = await residentBytes(server.pid);
  const head = post(["Content-Length: 2147483647", "Inference-Header-Content-Length: 5"], "{}");
  const sockets = Array.from({ length: 50 }, () => {
    const socket = connect(server.http, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write(head);
    return socket;
  });
  await assertSound(server);
  const growth = (await residentBytes(server.pid)) - bytesBefore;
  assert.ok(growth < 256 * MIB, `memory grew by ${growth} bytes`);
  for (const socket of sockets) socket.destroy();
  await assertSound(server);
});
