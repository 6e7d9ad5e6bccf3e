import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { chooseCredential } from "./credential-file.ts";
import { AZURE_KEY, S3_KEYS } from "./object-server.test-support.ts";
import { openTestStore } from "./open-stores.test-support.ts";

const FILE = JSON.stringify({
  s3: { "": "everywhere", "s3://bucket": "bucket", "s3://bucket/a": "folder" },
  gs: { "gs://bucket": "/path/of/a/file" },
});

const CHOICES: readonly (readonly ["s3" | "gs" | "as", string, unknown])[] = [
  ["s3", "s3://bucket/a/b", "folder"],
  ["s3", "s3://bucket/b", "bucket"],
  ["s3", "s3://other", "everywhere"],
  ["gs", "gs://bucket/x", "/path/of/a/file"],
  ["gs", "gs://other", undefined],
  ["as", "as://account/container", undefined],
];
for (const [kind, url, expected] of CHOICES) {
  test(`chooseCredential() takes the longest beginning of ${url}`, () => {
    assert.equal(chooseCredential(FILE, "file", kind, url), expected);
  });
}

for (const text of ["", "{", "[]", "1", '{"s3": []}', '{"s3": "x"}']) {
  test(`chooseCredential() says what a file with ${JSON.stringify(text)} should be`, () => {
    assert.throws(() => chooseCredential(text, "/the/file", "s3", "s3://b"), /\/the\/file.* expected JSON such as/s);
  });
}

test("a wrong file is not quoted: there are secrets in it", () => {
  const text = '{"s3": {"s3://b": {"secret_key": "hush"';
  assert.throws(
    () => chooseCredential(text, "f", "s3", "s3://b"),
    (error: Error) => !error.message.includes("hush"),
  );
});

test("TRITON_CLOUD_CREDENTIAL_PATH goes before the environment, and is read again when the store refuses", async (t) => {
  const { server, open, env, cacheFolder, url } = await openTestStore(t, "s3");
  server.put("repo/m/config.pbtxt", "");
  const file = join(cacheFolder, "credentials.json");
  const write = (secret: string): void => {
    writeFileSync(
      file,
      JSON.stringify({ s3: { [url]: { key_id: S3_KEYS.keyId, secret_key: secret, region: "us-east-1" } } }),
    );
  };
  write("no longer right");
  const repository = await open({ env: { ...env, TRITON_CLOUD_CREDENTIAL_PATH: file } });
  await assert.rejects(repository.refresh(), /answers 403: SignatureDoesNotMatch/);
  write(S3_KEYS.secret);
  await repository.refresh();
  assert.deepEqual(repository.models(), ["m"]);
});

test("an account's key of the file serves a container of Azure", async (t) => {
  const { server, open, env, cacheFolder, url } = await openTestStore(t, "as");
  server.put("repo/m/config.pbtxt", "");
  const file = join(cacheFolder, "credentials.json");
  const entry = { account_str: "devaccount", account_key: AZURE_KEY, auth_type: "key" };
  writeFileSync(file, JSON.stringify({ as: { [url]: entry } }));
  const endpoint = `AccountName=devaccount;BlobEndpoint=${server.endpoint}`;
  const given = { ...env, AZURE_STORAGE_CONNECTION_STRING: endpoint };
  await assert.rejects((await open({ env: given })).refresh(), /answers 403/);
  const repository = await open({ env: { ...given, TRITON_CLOUD_CREDENTIAL_PATH: file } });
  await repository.refresh();
  assert.deepEqual(repository.models(), ["m"]);
});
