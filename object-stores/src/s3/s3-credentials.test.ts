import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { StoresEnvironment } from "../environment.ts";
import { openTestStore, temporaryFolder } from "../open-stores.test-support.ts";
import { findS3Identity } from "./s3-credentials.ts";

const PATIENCE = { stallMs: 1000, signal: new AbortController().signal };
const NO_MACHINE = { AWS_EC2_METADATA_DISABLED: "true" };

/** A credential service: responses by method and path. */
async function service(
  t: TestContext,
  answers: Readonly<Record<string, string | ((request: IncomingMessage, body: string) => string)>>,
): Promise<string> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const answer = answers[`${request.method} ${request.url}`];
    const text = typeof answer === "function" ? answer(request, body) : answer;
    response.writeHead(text === undefined ? 404 : 200).end(text);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function homeWith(t: TestContext): string {
  const folder = temporaryFolder(t);
  writeFileSync(
    join(folder, "credentials"),
    "[default]\naws_access_key_id = D\naws_secret_access_key = ds\n\n[work]\naws_access_key_id=W\naws_secret_access_key=ws\naws_session_token=wt\n",
  );
  writeFileSync(join(folder, "config"), "[default]\nregion = eu-west-1\n[profile work]\nregion = eu-north-1\n");
  return folder;
}

function filesOf(folder: string): StoresEnvironment {
  return { AWS_SHARED_CREDENTIALS_FILE: join(folder, "credentials"), AWS_CONFIG_FILE: join(folder, "config") };
}

test("findS3Identity() takes the environment before profiles, and the profile that is named", async (t) => {
  const env = { ...NO_MACHINE, ...filesOf(homeWith(t)) };
  const pair = { AWS_ACCESS_KEY_ID: "E", AWS_SECRET_ACCESS_KEY: "es" };
  const found = async (more: StoresEnvironment) => {
    const { keys, region } = await findS3Identity(undefined, { ...env, ...more }, PATIENCE);
    return [keys?.keyId, keys?.sessionToken, region];
  };
  assert.deepEqual(await found(pair), ["E", undefined, "us-east-1"]);
  assert.deepEqual(await found({ ...pair, AWS_SESSION_TOKEN: "et", AWS_DEFAULT_REGION: "ap-south-1" }), [
    "E",
    "et",
    "ap-south-1",
  ]);
  assert.deepEqual(await found({}), ["D", undefined, "eu-west-1"]);
  assert.deepEqual(await found({ AWS_PROFILE: "work" }), ["W", "wt", "eu-north-1"]);
  await assert.rejects(found({ AWS_PROFILE: "nosuch" }), /AWS_PROFILE names 'nosuch', which has no keys/);
});

test("findS3Identity() is nobody where nothing is named", async (t) => {
  const env = { ...NO_MACHINE, ...filesOf(temporaryFolder(t)) };
  assert.deepEqual(await findS3Identity(undefined, env, PATIENCE), {
    keys: undefined,
    region: "us-east-1",
    endsAtMs: Number.POSITIVE_INFINITY,
  });
});

test("findS3Identity() trades a web identity for keys that end", async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "token"), "the token\n");
  const endpoint = await service(t, {
    "POST /": (_, body) => {
      const form = new URLSearchParams(body);
      assert.equal(form.get("WebIdentityToken"), "the token");
      assert.equal(form.get("RoleArn"), "arn:aws:iam::1:role/models");
      return "<R><AccessKeyId>A</AccessKeyId><SecretAccessKey>s&amp;</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></R>";
    },
  });
  const env = {
    ...NO_MACHINE,
    ...filesOf(folder),
    AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, "token"),
    AWS_ROLE_ARN: "arn:aws:iam::1:role/models",
    AWS_ENDPOINT_URL_STS: endpoint,
  };
  const { keys, endsAtMs } = await findS3Identity(undefined, env, PATIENCE);
  assert.deepEqual(keys, { keyId: "A", secret: "s&", sessionToken: "t" });
  assert.equal(endsAtMs, Date.UTC(2030, 0, 1));
});

const ROLE = JSON.stringify({
  AccessKeyId: "M",
  SecretAccessKey: "ms",
  Token: "mt",
  Expiration: "2030-01-01T00:00:00Z",
});

test("findS3Identity() asks a container's and a machine's service of roles", async (t) => {
  const files = filesOf(temporaryFolder(t));
  const container = await service(t, {
    "GET /keys": ({ headers }) => (headers.authorization === "secret" ? ROLE : "{}"),
  });
  const inContainer = {
    ...files,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${container}/keys`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "secret",
  };
  assert.equal((await findS3Identity(undefined, inContainer, PATIENCE)).keys?.keyId, "M");
  const base = "/latest/meta-data/iam/security-credentials/";
  const machine = await service(t, {
    "PUT /latest/api/token": "lease",
    [`GET ${base}`]: "the-role",
    [`GET ${base}the-role`]: ({ headers }) => (headers["x-aws-ec2-metadata-token"] === "lease" ? ROLE : "{}"),
  });
  const onMachine = { ...files, AWS_EC2_METADATA_SERVICE_ENDPOINT: machine };
  assert.equal((await findS3Identity(undefined, onMachine, PATIENCE)).keys?.sessionToken, "mt");
});

test("requests go to the region that the store names", async (t) => {
  const { server, open } = await openTestStore(t, "s3");
  server.put("repo/m/config.pbtxt", "");
  server.region = "eu-south-2";
  server.tellsRegion = true;
  const repository = await open();
  await repository.refresh();
  assert.deepEqual(repository.models(), ["m"]);
});
