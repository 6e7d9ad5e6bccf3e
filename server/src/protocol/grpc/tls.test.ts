import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChannelCredentials, Client, credentials, status } from "@grpc/grpc-js";
import { TEST_CERT as CERT, TEST_KEY as KEY } from "./test-certificate.test-support.ts";
import { callUnary, openTestBed } from "./test-peer.test-support.ts";

async function live(port: number, channel: ChannelCredentials): Promise<unknown> {
  const client = new Client(`localhost:${port}`, channel);
  try {
    return await callUnary(client, "ServerLive", {}, { deadline: Date.now() + 5000 });
  } finally {
    client.close();
  }
}

test("a front end with a certificate speaks TLS and nothing else", async () => {
  const bed = await openTestBed({ tls: { cert: CERT, key: KEY, mutual: false } });
  assert.deepEqual(await live(bed.port, credentials.createSsl(Buffer.from(CERT))), { live: true });
  await assert.rejects(live(bed.port, credentials.createInsecure()), { code: status.UNAVAILABLE });
  await bed.close();
});

test("mutual TLS needs a client certificate of the given authority", async () => {
  const bed = await openTestBed({ tls: { cert: CERT, key: KEY, root: CERT, mutual: true } });
  const [root, key, cert] = [Buffer.from(CERT), Buffer.from(KEY), Buffer.from(CERT)];
  assert.deepEqual(await live(bed.port, credentials.createSsl(root, key, cert)), { live: true });
  await assert.rejects(live(bed.port, credentials.createSsl(root)), { code: status.UNAVAILABLE });
  await bed.close();
});
