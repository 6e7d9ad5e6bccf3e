import assert from "node:assert/strict";
import { createVerify, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { openTestStore, temporaryFolder } from "../open-stores.test-support.ts";
import { findGcsIdentity } from "./gcs-identity.ts";

const PATIENCE = { stallMs: 1000, signal: new AbortController().signal };

/** A token endpoint that records the forms it receives. */
async function tokenService(t: TestContext, tokens: readonly string[]) {
  const forms: URLSearchParams[] = [];
  const left = [...tokens];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    forms.push(new URLSearchParams(body));
    response.end(JSON.stringify({ access_token: left.length > 1 ? left.shift() : left[0], expires_in: 3600 }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => void server.close());
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { host, url: `http://${host}/token`, forms };
}

const KEYS = generateKeyPairSync("rsa", { modulusLength: 2048 });

test("findGcsIdentity() signs a service account's statement, which its public key verifies", async (t) => {
  const { url, forms } = await tokenService(t, ["the-token"]);
  const file = join(temporaryFolder(t), "account.json");
  const privateKey = KEYS.privateKey.export({ type: "pkcs8", format: "pem" });
  const account = { type: "service_account", client_email: "a@b.c", private_key_id: "k1", token_uri: url };
  writeFileSync(file, JSON.stringify({ ...account, private_key: privateKey }));
  const { token, endsAtMs } = await findGcsIdentity(file, {}, PATIENCE);
  assert.equal(token, "the-token");
  assert.ok(endsAtMs > Date.now() + 3_500_000);
  const [header = "", claims = "", signature = ""] = (forms[0]?.get("assertion") ?? "").split(".");
  const verify = createVerify("RSA-SHA256").update(`${header}.${claims}`);
  assert.ok(verify.verify(KEYS.publicKey, signature, "base64url"));
  assert.deepEqual(JSON.parse(Buffer.from(header, "base64url").toString()), { alg: "RS256", typ: "JWT", kid: "k1" });
  const { iss, scope, aud, iat, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
  assert.deepEqual(
    [iss, scope, aud, exp - iat],
    ["a@b.c", "https://www.googleapis.com/auth/devstorage.read_only", url, 3600],
  );
});

test("findGcsIdentity() refreshes a user's token, and asks the machine's own service", async (t) => {
  const { url, host, forms } = await tokenService(t, ["one"]);
  const file = join(temporaryFolder(t), "user.json");
  const user = { type: "authorized_user", client_id: "i", client_secret: "s", refresh_token: "r", token_uri: url };
  writeFileSync(file, JSON.stringify(user));
  assert.equal((await findGcsIdentity(undefined, { GOOGLE_APPLICATION_CREDENTIALS: file }, PATIENCE)).token, "one");
  assert.equal(forms[0]?.get("refresh_token"), "r");
  assert.equal((await findGcsIdentity(undefined, { GCE_METADATA_HOST: host }, PATIENCE)).token, "one");
  const nobody = await findGcsIdentity(undefined, { GCE_METADATA_HOST: "127.0.0.1:1" }, PATIENCE);
  assert.equal(nobody.token, undefined);
});

const WRONG: readonly (readonly [string, RegExp])[] = [
  ["no json", /is no JSON/],
  ['{"type": "external_account"}', /of type "external_account", expected "service_account"/],
  ['{"type": "service_account"}', /no client_email or no private_key/],
  ['{"type": "service_account", "client_email": "a", "private_key": "hush"}', /its private_key cannot sign/],
];
for (const [text, reason] of WRONG) {
  test(`findGcsIdentity() says what is wrong with ${text}`, async (t) => {
    const file = join(temporaryFolder(t), "account.json");
    writeFileSync(file, text);
    await assert.rejects(findGcsIdentity(file, {}, PATIENCE), (error: Error) => {
      assert.match(error.message, reason);
      assert.doesNotMatch(error.message, /hush/);
      return true;
    });
  });
}

test("a token that the store refuses is fetched again, once", async (t) => {
  const { server, open, env, cacheFolder } = await openTestStore(t, "gs");
  const { url, forms } = await tokenService(t, ["stale", "fresh"]);
  server.put("repo/m/config.pbtxt", "");
  server.token = "fresh";
  const file = join(cacheFolder, "user.json");
  writeFileSync(file, JSON.stringify({ type: "authorized_user", token_uri: url }));
  const repository = await open({ env: { ...env, GOOGLE_APPLICATION_CREDENTIALS: file } });
  await repository.refresh();
  await repository.refresh();
  assert.deepEqual(repository.models(), ["m"]);
  assert.equal(forms.length, 2);
});
