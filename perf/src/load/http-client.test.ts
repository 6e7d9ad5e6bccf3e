import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { after, test } from "node:test";
import { HttpClient, httpRequestBytes } from "./http-client.ts";

const OPEN: (() => void)[] = [];
after(() => {
  for (const close of OPEN) close();
});

/** A server that answers each request with the next of these texts, cut into pieces of `size`, and closes after "close". */
async function serve(answers: readonly string[], size: number): Promise<number> {
  let at = 0;
  const server: Server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("data", async () => {
      const answer = answers[at++] ?? "";
      for (let from = 0; from < answer.length; from += size) {
        socket.write(answer.slice(from, from + size));
        await new Promise(setImmediate);
      }
      if (answer === "" || answer.includes("close")) socket.end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  OPEN.push(() => server.close());
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

const REQUEST = httpRequestBytes({ method: "GET", path: "/", headers: [], body: new Uint8Array(0) }, "localhost");

async function exchanges(answers: readonly string[], size: number): Promise<(readonly [string, string | undefined])[]> {
  const client = new HttpClient({ host: "127.0.0.1", port: await serve(answers, size) });
  OPEN.push(() => client.close());
  const seen: (readonly [string, string | undefined])[] = [];
  for (const _ of answers) {
    const result = await new Promise<readonly [string, string | undefined]>((resolve) => {
      let body = "";
      client.send(REQUEST, {
        part(bytes) {
          body += bytes.toString();
        },
        end: (failure) => resolve([body, failure]),
      });
    });
    seen.push(result);
  }
  return seen;
}

/** As Triton orders the headers of a binary answer. */
const BINARY = "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc";
const PLAIN = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";

for (const size of [1, 7, 10_000]) {
  test(`HttpClient reads answers of every form, ${size} bytes at a time`, async () => {
    const closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    const wrong = "HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nno tensor";
    const interim = `HTTP/1.1 100 Continue\r\n\r\n${PLAIN}`;
    assert.deepEqual(await exchanges([PLAIN, BINARY, CHUNKED, wrong, interim, closing, PLAIN], size), [
      ["hello", undefined],
      ["{}abc", undefined],
      ["abcdefg", undefined],
      ["", "HTTP 400 Bad Request: no tensor"],
      ["hello", undefined],
      ["hi", undefined],
      ["hello", undefined],
    ]);
  });
}

test("HttpClient tells that an answer was cut off", async () => {
  const [[, failure] = []] = await exchanges(["HTTP/1.1 200 OK\r\nX: close\r\nContent-Length: 9\r\n\r\nab"], 100);
  assert.equal(failure, "the server closed the connection before the answer was whole");
});
