import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync, gunzipSync, gzipSync, inflateSync } from "node:zlib";
import { BodyBudget } from "../../body-budget.ts";
import { HeldBytes } from "../../held-bytes.ts";
import { compressBody, inflateBody, requestEncoding, responseEncoding } from "./compression.ts";

const ACCEPTED: [string | undefined, string][] = [
  [undefined, "identity"],
  ["", "identity"],
  ["*", "identity"],
  ["br", "identity"],
  ["GZIP", "identity"],
  ["gzip", "gzip"],
  ["deflate, gzip", "deflate"],
  ["deflate;q=0.2, gzip;q=0.5", "gzip"],
  ["br;q=1.0, gzip;q=0.5, *;q=0", "gzip"],
  ["identity, gzip;q=0.5", "identity"],
  ["gzip;q=0", "identity"],
  ["gzip;q=x", "identity"],
];
for (const [header, encoding] of ACCEPTED) {
  test(`responseEncoding() chooses ${encoding} for ${header}`, () => {
    assert.equal(responseEncoding(header), encoding);
  });
}

test("requestEncoding() knows two encodings and no lists", () => {
  assert.equal(requestEncoding(undefined), "identity");
  assert.equal(requestEncoding("gzip"), "gzip");
  assert.equal(requestEncoding("br"), undefined);
  assert.equal(requestEncoding("gzip, deflate"), undefined);
});

test("inflateBody() stops at the limit, and takes what does not inflate as empty", async () => {
  const body = Buffer.alloc(1000, 7);
  const share = new HeldBytes(new BodyBudget(10_000));
  assert.deepEqual(await inflateBody(gzipSync(body), "gzip", 1000, share), body);
  assert.deepEqual(await inflateBody(deflateSync(body), "deflate", 1000, share), body);
  await assert.rejects(inflateBody(gzipSync(body), "gzip", 999, share), /maximum allowed value of 999 bytes/);
  assert.equal((await inflateBody(Buffer.from("no gzip"), "gzip", 1000, share)).length, 0);
});

test("compressBody() joins the parts, small and large", async () => {
  for (const size of [10, 100_000]) {
    const parts = [Buffer.alloc(size, 1), Buffer.alloc(size, 2)];
    assert.deepEqual(gunzipSync(await compressBody(parts, "gzip")), Buffer.concat(parts));
    assert.deepEqual(inflateSync(await compressBody(parts, "deflate")), Buffer.concat(parts));
  }
});
