/** A server that ends while a model is on its way does not wait for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BUCKET, ObjectServer, S3_KEYS } from "../../object-stores/src/object-server.test-support.ts";
import { contents, liveFolders, temporaryFolder } from "../../object-stores/src/open-stores.test-support.ts";
import { startServerProcess } from "../support/server-process.ts";

test("SIGTERM ends a download, answers who has asked for it, and keeps what has come", async (t) => {
  const store = await ObjectServer.start("s3");
  t.after(() => store[Symbol.asyncDispose]());
  store.put("repo/m/1/weights", Buffer.alloc(10_000_000));
  store.bytesPerSecond = 100_000;
  const cache = temporaryFolder(t);
  const server = await startServerProcess({
    repositories: [`s3://${store.endpoint}/${BUCKET}/repo`],
    flags: ["--model-control-mode=explicit"],
    env: { AWS_ACCESS_KEY_ID: S3_KEYS.keyId, AWS_SECRET_ACCESS_KEY: S3_KEYS.secret, NEREID_MODEL_CACHE: cache },
  });
  t.after(() => server.kill());
  const loading = fetch(`${server.baseUrl}/v2/repository/models/m/load`, { method: "POST" });
  while (store.gets("repo/m/1/weights").length === 0) await sleep(20);
  await sleep(300);
  await server.stop();
  const response = await loading;
  assert.equal(response.status, 500);
  assert.deepEqual(liveFolders(cache), []);
  // The server is gone before its model was there: a part of it is left.
  assert.match(contents(cache).join(), /\.part$/);
  assert.equal(store.gets("repo/m/1/weights").length, 1);
});
