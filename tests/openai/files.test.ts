/** Files by OpenAI's own client: upload, list, content, delete, keys, restart, bounds and wrong uploads. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, constants } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI, { APIError, toFile } from "openai";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "openai-files-"));
const filesFolder = join(folder, "store");
const keyFile = join(folder, "keys.json");
let scripted: ModelRepository;
let server: ServerProcess;

const start = () =>
  startServerProcess({
    repositories: [scripted.path],
    flags: [`--api-key-file=${keyFile}`, `--openai-files-dir=${filesFolder}`, "--one-port=true"],
  });

before(async () => {
  const keys = ["one", "two"].map((name) => ({ name, sha256: sha256(`sk-${name}`) }));
  writeFileSync(keyFile, JSON.stringify({ keys }));
  scripted = await createScriptedModels();
  server = await start();
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const clientOf = (name = "one"): OpenAI =>
  new OpenAI({ apiKey: `sk-${name}`, baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });

const upload = async (text: string | Uint8Array, name = "a.jsonl") =>
  clientOf().files.create({ file: await toFile(Buffer.from(text), name), purpose: "batch" });

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of items) all.push(each);
  return all;
}

async function errorOf(promise: Promise<unknown>): Promise<APIError> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

test("a file is kept, listed, read and deleted", async () => {
  const file = await upload("first\n");
  assert.match(file.id, /^file-/);
  const { id: _, created_at: createdAt, expires_at: expiresAt, ...facts } = file;
  assert.deepEqual(facts, { object: "file", bytes: 6, filename: "a.jsonl", purpose: "batch", status: "processed" });
  assert.equal(expiresAt, createdAt + 2_592_000);
  assert.deepEqual(await clientOf().files.retrieve(file.id), file);
  assert.equal(await (await clientOf().files.content(file.id)).text(), "first\n");
  const listed = await collect(await clientOf().files.list({ purpose: "batch" }));
  assert.deepEqual(listed, [file]);
  assert.deepEqual(await clientOf().files.delete(file.id), { id: file.id, object: "file", deleted: true });
  assert.equal((await errorOf(clientOf().files.retrieve(file.id))).status, 404);
});

test("pages of a list hold each file once", async () => {
  const ids: string[] = [];
  for (const name of ["1", "2", "3"]) ids.push((await upload(name, name)).id);
  const listed: string[] = [];
  for await (const { id } of clientOf().files.list({ limit: 2 })) listed.push(id);
  assert.deepEqual(listed, ids.toReversed());
  for (const id of ids) await clientOf().files.delete(id);
});

test("a file belongs to its key", async () => {
  const { id } = await upload("secret");
  const other = clientOf("two");
  assert.deepEqual(await collect(await other.files.list()), []);
  for (const call of ["retrieve", "content", "delete"] as const) {
    assert.equal((await errorOf(other.files[call](id))).status, 404);
  }
  assert.equal(await (await clientOf().files.content(id)).text(), "secret");
});

/** A multipart body with these bytes as its file. */
function multipart(bytes: Uint8Array, boundary: string): Buffer {
  const field = `--${boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n`;
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="h2.jsonl"\r\n\r\n`;
  return Buffer.concat([Buffer.from(field + head), bytes, Buffer.from(`\r\n--${boundary}--\r\n`)]);
}

test("a file that is larger than the window of a stream comes over HTTP/2", async () => {
  const bytes = Buffer.alloc(3e6, "0123456789\r\n--");
  const session = connect(server.baseUrl);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": "/v1/files",
      authorization: "Bearer sk-one",
      "content-type": "multipart/form-data; boundary=cut",
    });
    stream.end(multipart(bytes, "cut"));
    const file: { id: string; bytes: number } = JSON.parse(await textOf(stream));
    assert.equal(file.bytes, bytes.length);
    const content = Buffer.from(await (await clientOf().files.content(file.id)).arrayBuffer());
    assert.ok(content.equals(bytes));
    await clientOf().files.delete(file.id);
  } finally {
    session.close();
  }
});

test("an upload over HTTP/2 that its client resets leaves nothing behind", async () => {
  const names = (): string[] => readdirSync(join(filesFolder, "files")).sort();
  const before = names();
  const session = connect(server.baseUrl);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": "/v1/files",
      authorization: "Bearer sk-one",
      "content-type": "multipart/form-data; boundary=cut",
    });
    stream.on("error", () => undefined);
    stream.write(multipart(Buffer.alloc(100_000, "x"), "cut").subarray(0, 50_000));
    while (names().length === before.length) await sleep(10);
    stream.close(constants.NGHTTP2_CANCEL);
    while (names().length > before.length) await sleep(10);
    assert.deepEqual(names(), before);
  } finally {
    session.close();
  }
});

test("a large file comes back byte for byte, also after a restart", async () => {
  const bytes = Buffer.alloc(20e6, "0123456789\r\n--");
  const { id } = await upload(bytes, "large.jsonl");
  await server.stop();
  server = await start();
  const content = Buffer.from(await (await clientOf().files.content(id)).arrayBuffer());
  assert.ok(content.equals(bytes));
});

test("wrong uploads are refused and leave nothing behind", async () => {
  const count = (): number => readdirSync(join(filesFolder, "files")).length;
  const numBefore = count();
  const post = async (body: FormData | string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${server.baseUrl}/v1/files`, {
      method: "POST",
      body,
      headers: { authorization: "Bearer sk-one", ...headers },
    });
    const { error } = (await response.json()) as { error: { param: string | null; code: string } };
    return [response.status, error.code, error.param];
  };
  const form = (fields: Record<string, string | Blob>): FormData => {
    const made = new FormData();
    for (const [name, value] of Object.entries(fields)) made.append(name, value);
    return made;
  };
  const file = new Blob(["x"]);
  assert.deepEqual(await post(form({ file })), [400, "missing_required_parameter", "purpose"]);
  assert.deepEqual(await post(form({ purpose: "batch" })), [400, "missing_required_parameter", "file"]);
  assert.deepEqual(await post(form({ file, purpose: "poetry" })), [400, "invalid_value", "purpose"]);
  assert.deepEqual(await post(form({ file, purpose: "x".repeat(5000) })), [400, "string_above_max_length", "purpose"]);
  assert.deepEqual(await post("{}"), [400, "invalid_content_type", null]);
  const cut = { "content-type": "multipart/form-data; boundary=x" };
  assert.deepEqual(await post('--x\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nabc', cut), [
    400,
    "invalid_multipart_form_data",
    null,
  ]);
  assert.equal(count(), numBefore);
});

test("ids that are paths find nothing", async () => {
  const response = await fetch(`${server.baseUrl}/v1/files/..%2F..%2Fkeys.json/content`, {
    headers: { authorization: "Bearer sk-one" },
  });
  assert.equal(response.status, 404);
});
