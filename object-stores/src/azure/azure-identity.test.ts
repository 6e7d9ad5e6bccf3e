import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import type { StoresEnvironment } from "../environment.ts";
import { temporaryFolder } from "../open-stores.test-support.ts";
import { findAzureIdentity, parseConnectionString } from "./azure-identity.ts";

const PATIENCE = { stallMs: 1000, signal: new AbortController().signal };

const FOUND: readonly (readonly [string, StoresEnvironment, unknown, Record<string, string>])[] = [
  [
    "a key",
    { AZURE_STORAGE_ACCOUNT: "a", AZURE_STORAGE_KEY: "a2V5" },
    undefined,
    { kind: "key", account: "a", key: "a2V5" },
  ],
  [
    "a key of the address's account",
    { AZURE_STORAGE_KEY: "a2V5" },
    undefined,
    { kind: "key", account: "own", key: "a2V5" },
  ],
  ["a signature", { AZURE_STORAGE_SAS_TOKEN: "?sv=1&sig=x" }, undefined, { kind: "sas", query: "sv=1&sig=x" }],
  [
    "a connection string",
    { AZURE_STORAGE_CONNECTION_STRING: "AccountName=c;AccountKey=a2V5PT0=;EndpointSuffix=core.windows.net" },
    undefined,
    { kind: "key", account: "c", key: "a2V5PT0=" },
  ],
  [
    "the credentials file before the environment",
    { AZURE_STORAGE_KEY: "b3RoZXI=" },
    { account_str: "f", account_key: "a2V5" },
    { kind: "key", account: "f", key: "a2V5" },
  ],
  ["anonymous", {}, undefined, { kind: "anonymous" }],
];
for (const [title, env, credential, expected] of FOUND) {
  test(`findAzureIdentity() finds ${title}`, async () => {
    const { endsAtMs, ...found } = await findAzureIdentity(credential, "own", env, PATIENCE);
    assert.deepEqual(found, expected);
    assert.equal(endsAtMs, Number.POSITIVE_INFINITY);
  });
}

test("findAzureIdentity() gets tokens of a managed identity, a workload and a registered program", async (t) => {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    asked.push(`${request.method} ${request.url} ${body}`);
    response.end(JSON.stringify({ access_token: "t", expires_in: "600" }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const file = join(temporaryFolder(t), "token");
  writeFileSync(file, "proof\n");
  const find = (env: StoresEnvironment) => findAzureIdentity(undefined, "own", env, PATIENCE);
  const managed = {
    AZURE_STORAGE_AUTH_TYPE: "managed_identity",
    AZURE_STORAGE_CLIENT_ID: "c1",
    IDENTITY_ENDPOINT: `${endpoint}/msi`,
  };
  const program = {
    AZURE_STORAGE_AUTH_TYPE: "default",
    AZURE_TENANT_ID: "te",
    AZURE_CLIENT_ID: "cl",
    AZURE_AUTHORITY_HOST: endpoint,
  };
  for (const env of [
    managed,
    { ...program, AZURE_FEDERATED_TOKEN_FILE: file },
    { ...program, AZURE_CLIENT_SECRET: "hush" },
  ]) {
    assert.equal((await find(env)).kind, "token");
  }
  assert.match(
    asked[0] ?? "",
    /^GET \/msi\?api-version=2019-08-01&resource=https%3A%2F%2Fstorage\.azure\.com%2F&client_id=c1/,
  );
  assert.match(asked[1] ?? "", /^POST \/te\/oauth2\/v2\.0\/token .*client_assertion=proof/);
  assert.match(asked[2] ?? "", /client_secret=hush/);
  await assert.rejects(find({ AZURE_STORAGE_AUTH_TYPE: "wish" }), /'wish', expected key, managed_identity or default/);
});

test("parseConnectionString() takes names in any case and values with equal signs", () => {
  const fields = parseConnectionString("accountname=a; AccountKey=b==;;nonsense");
  assert.deepEqual(
    [...fields],
    [
      ["accountname", "a"],
      ["accountkey", "b=="],
    ],
  );
});
