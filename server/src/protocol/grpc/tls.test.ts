import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChannelCredentials, Client, credentials, status } from "@grpc/grpc-js";
import { callUnary, openTestBed } from "./test-peer.test-support.ts";

// A self-signed certificate of "localhost", made for this test and good until 2126.
const CERT = `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUY7GNR701XWZHHnD9VZ3KCY0/hqUwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEwNDcyMloYDzIxMjYxMDI4
MTA0NzIyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARuBSq1Ys3YMu6hDQCJVFSOIBOaHhovZ70o8SQZfk/vAg0Wi0JxUdiI
eOR+vBicxg2JJD1QrKdM57HMxF+KMIvko28wbTAdBgNVHQ4EFgQUEFMqeRmmBCSw
J+bm1XFw6Alk9zEwHwYDVR0jBBgwFoAUEFMqeRmmBCSwJ+bm1XFw6Alk9zEwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhALZzZaCsFMuCHf2P/wR51GqWrIyrRAjG8vA/G8fRfXvwAiAI
2ZVm4LPC7nhCSIIg44se80S7RenTOvAAJTAWbs2lwA==
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg62/52EbLMyYX8gcB
qqON2P/ovflYNqdgtyMJZ0VG4YmhRANCAARuBSq1Ys3YMu6hDQCJVFSOIBOaHhov
Z70o8SQZfk/vAg0Wi0JxUdiIeOR+vBicxg2JJD1QrKdM57HMxF+KMIvk
-----END PRIVATE KEY-----
`;

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
