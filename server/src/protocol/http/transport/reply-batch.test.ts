import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { bytesReply } from "../http-reply.ts";
import { ReplyBatch } from "./reply-batch.ts";

/** A server that answers each request through one batch, with the path as body. */
async function serve(
  batch: ReplyBatch,
  before: (response: ServerResponse, path: string) => void,
): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    before(response, request.url ?? "");
    batch.add(response, bytesReply("text/plain", [Buffer.from(request.url ?? "")]));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

test("ReplyBatch answers everybody with their own reply", async () => {
  const batch = new ReplyBatch((error) => assert.fail(String(error)));
  const { url, close } = await serve(batch, () => undefined);
  const texts = await Promise.all(["/a", "/b", "/c"].map(async (path) => (await fetch(url + path)).text()));
  assert.deepEqual(texts, ["/a", "/b", "/c"]);
  close();
});

test("ReplyBatch tells of a reply that cannot be sent, and sends the others", async () => {
  const failures: unknown[] = [];
  const batch = new ReplyBatch((error, response) => {
    failures.push(error);
    response.destroy();
  });
  const { url, close } = await serve(batch, (response, path) => {
    if (path === "/broken") response.write("the head is out already");
  });
  const [broken, whole] = await Promise.allSettled(
    ["/broken", "/whole"].map(async (path) => (await fetch(url + path)).text()),
  );
  assert.equal(broken?.status, "rejected");
  assert.deepEqual(whole, { status: "fulfilled", value: "/whole" });
  assert.equal(failures.length, 1);
  close();
});

test("ReplyBatch sends a large reply at once", async () => {
  const batch = new ReplyBatch((error) => assert.fail(String(error)));
  const isSent: boolean[] = [];
  const server = createServer((request, response) => {
    batch.add(response, bytesReply("text/plain", [Buffer.alloc(Number(request.url?.slice(1)))]));
    isSent.push(response.headersSent);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const size of [16_384, 16_385]) {
    assert.equal((await (await fetch(`${url}/${size}`)).arrayBuffer()).byteLength, size);
  }
  assert.deepEqual(isSent, [false, true]);
  server.close();
});
