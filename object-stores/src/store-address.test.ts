import assert from "node:assert/strict";
import { test } from "node:test";
import { parseStoreAddress, type StoreAddress } from "./store-address.ts";

const DIGEST = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const RIGHT: readonly (readonly [string, StoreAddress])[] = [
  ["s3://bucket", { kind: "s3", endpoint: undefined, bucket: "bucket", prefix: "" }],
  ["s3://bucket/a//b/", { kind: "s3", endpoint: undefined, bucket: "bucket", prefix: "a/b" }],
  ["s3://host:9000/bucket/a", { kind: "s3", endpoint: "http://host:9000", bucket: "bucket", prefix: "a" }],
  ["s3://https://host:9000/bucket", { kind: "s3", endpoint: "https://host:9000", bucket: "bucket", prefix: "" }],
  [
    "s3://https://minio.example/bucket/a",
    { kind: "s3", endpoint: "https://minio.example", bucket: "bucket", prefix: "a" },
  ],
  ["s3://http://10.0.0.1:80/bucket/a", { kind: "s3", endpoint: "http://10.0.0.1:80", bucket: "bucket", prefix: "a" }],
  ["gs://bucket/a/b", { kind: "gs", bucket: "bucket", prefix: "a/b" }],
  [
    "as://account.blob.core.windows.net/container/a",
    { kind: "as", account: "account", container: "container", prefix: "a" },
  ],
  ["as://account/container", { kind: "as", account: "account", container: "container", prefix: "" }],
  ["hf://org/model@main", { kind: "hf", name: "hf://org/model@main" }],
  ["https://host/a/repo.tar.gz", { kind: "archive", url: "https://host/a/repo.tar.gz", sha256: undefined }],
  ["https://host/repo.tgz?x=1", { kind: "archive", url: "https://host/repo.tgz?x=1", sha256: undefined }],
  [
    `http://host/repo.tar#sha256=${DIGEST.toUpperCase()}`,
    { kind: "archive", url: "http://host/repo.tar", sha256: DIGEST },
  ],
  ["http://127.0.0.1:1/repo.tar", { kind: "archive", url: "http://127.0.0.1:1/repo.tar", sha256: undefined }],
];
for (const [text, address] of RIGHT) {
  test(`parseStoreAddress() understands ${text}`, () => {
    assert.deepEqual(parseStoreAddress(text), address);
  });
}

const WRONG: readonly (readonly [string, RegExp])[] = [
  ["s3://", /expected s3:\/\/<bucket>/],
  ["s3://host:9000", /expected s3:/],
  ["s3://../x", /expected s3:/],
  ["gs://B/x", /expected gs:/],
  ["as://account", /expected as:/],
  ["as://http://x/container", /expected as:/],
  ["https://host/repo.zip", /expected https:/],
  ["https://host/repo.tar.gz#sha256=12", /expected https:/],
  ["http://host/repo.tar.gz", /without TLS anybody on the network path could change these models/],
  ["ftp://host/repo.tar.gz", /begins with s3:/],
];
for (const [text, reason] of WRONG) {
  test(`parseStoreAddress() says what is wrong with ${text}`, () => {
    assert.throws(() => parseStoreAddress(text), reason);
  });
}
