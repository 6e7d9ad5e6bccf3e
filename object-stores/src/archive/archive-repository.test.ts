import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "@nereid/server/observe/log";
import type { RemoteRepository } from "@nereid/server/repository/source/remote-repository";
import { tarOf } from "../../../server/src/files/tar/tar-writer.test-support.ts";
import { openRepository } from "../open-repository.ts";
import { filesIn, liveFolders, temporaryFolder } from "../open-stores.test-support.ts";

const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_warning: false });

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(t: TestContext, handler: Handler): Promise<string> {
  const server = createServer(handler);
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server with one file that supports ranges and entity tags. */
class FileHost {
  content: Buffer = Buffer.alloc(0);
  /** Cuts this number of responses after a third of the file. */
  numCuts = 0;
  readonly ranges: (string | undefined)[] = [];

  readonly answer: Handler = ({ headers }, response) => {
    this.ranges.push(headers.range);
    const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)/.exec(headers.range ?? "") ?? [];
    const end = to === "" ? this.content.length : Number(to) + 1;
    const part = this.content.subarray(Number(from), end);
    response.writeHead(headers.range === undefined ? 200 : 206, {
      etag: `"${createHash("md5").update(this.content).digest("hex")}"`,
      "content-length": part.length,
      "content-range": `bytes ${from}-${end - 1}/${this.content.length}`,
    });
    if (this.numCuts === 0 || to !== "") {
      response.end(part);
      return;
    }
    this.numCuts -= 1;
    response.write(part.subarray(0, this.content.length / 3), () => setTimeout(() => response.socket?.end(), 200));
  };
}

async function open(t: TestContext, url: string): Promise<{ repository: RemoteRepository; cacheFolder: string }> {
  const cacheFolder = temporaryFolder(t);
  const env = { NEREID_MODEL_CACHE: cacheFolder, NEREID_STORE_TIMEOUT_SECONDS: "1" };
  const arrangeModel = async (): Promise<void> => undefined;
  const repository = await openRepository({ url, env, log: SILENT, isWatched: true, firstPauseMs: 1, arrangeModel });
  t.after(() => repository.close());
  return { repository, cacheFolder };
}

function archive(text: string, root = ""): Buffer {
  const entries = [
    { name: `${root}simple/config.pbtxt`, content: text },
    { name: `${root}simple/1/`, type: "5" },
    { name: `${root}other/config.pbtxt`, content: "the same" },
    { name: `${root}README.md`, content: "beside the models" },
  ];
  return gzipSync(tarOf(entries));
}

for (const root of ["", "repository-1.0/"]) {
  test(`the models of an archive with ${root === "" ? "no folder" : "one folder"} around them`, async (t) => {
    const host = new FileHost();
    host.content = archive("one", root);
    const { repository } = await open(t, `${await serve(t, host.answer)}/repo.tar.gz`);
    await repository.refresh();
    assert.deepEqual(repository.models(), ["other", "simple"]);
    const { repositoryPath } = await repository.localize("simple");
    assert.deepEqual(filesIn(repositoryPath)["simple/config.pbtxt"], "one");
    assert.equal(filesIn(repositoryPath)["simple/1/"], "");
  });
}

test("a new archive is followed: only what differs changes, and the old one stays while a model uses it", async (t) => {
  const host = new FileHost();
  host.content = archive("one");
  const { repository, cacheFolder } = await open(t, `${await serve(t, host.answer)}/repo.tgz`);
  await repository.refresh();
  const before = ["simple", "other"].map((model) => repository.fingerprint(model));
  const old = await repository.localize("simple");
  await repository.refresh();
  assert.equal(liveFolders(cacheFolder).length, 1);
  host.content = archive("two");
  await repository.refresh();
  assert.notEqual(repository.fingerprint("simple"), before[0]);
  assert.equal(repository.fingerprint("other"), before[1]);
  assert.equal(filesIn(old.repositoryPath)["simple/config.pbtxt"], "one");
  assert.equal(liveFolders(cacheFolder).length, 2);
  await old.release();
  assert.equal(liveFolders(cacheFolder).length, 1);
});

test("a download that is cut goes on where it was; a new archive that is broken leaves the old", async (t) => {
  const host = new FileHost();
  host.content = archive("one");
  host.numCuts = 1;
  const { repository, cacheFolder } = await open(t, `${await serve(t, host.answer)}/repo.tar.gz`);
  await repository.refresh();
  assert.equal(host.ranges.at(-1), `bytes=${Math.floor(host.content.length / 3)}-`);
  host.content = host.content.subarray(0, 100);
  await assert.rejects(repository.refresh(), /cannot be unpacked/);
  assert.deepEqual(repository.models(), ["other", "simple"]);
  assert.equal(liveFolders(cacheFolder).length, 1);
});

test("an archive whose hash is named must have it", async (t) => {
  const host = new FileHost();
  host.content = archive("one");
  const url = `${await serve(t, host.answer)}/repo.tar.gz`;
  const right = createHash("sha256").update(host.content).digest("hex");
  const { repository } = await open(t, `${url}#sha256=${right}`);
  await repository.refresh();
  assert.deepEqual(repository.models(), ["other", "simple"]);
  const other = await open(t, `${url}#sha256=${"0".repeat(64)}`);
  await assert.rejects(other.repository.refresh(), /its content is wrong: expected sha256 000/);
  assert.deepEqual(liveFolders(other.cacheFolder), []);
});

test("a password goes to the host alone, not to where it redirects, and never to a log", async (t) => {
  const host = new FileHost();
  host.content = archive("one");
  const seen: (string | undefined)[] = [];
  const mirror = await serve(t, (request, response) => {
    seen.push(request.headers.authorization);
    host.answer(request, response);
  });
  const front = await serve(t, (request, response) => {
    const isRight = request.headers.authorization === `Basic ${Buffer.from("me:p w").toString("base64")}`;
    response.writeHead(isRight ? 302 : 401, { location: `${mirror}/elsewhere.tar.gz` }).end();
  });
  const { repository } = await open(t, `${front.replace("//", "//me:p%20w@")}/repo.tar.gz`);
  await repository.refresh();
  assert.deepEqual(repository.models(), ["other", "simple"]);
  assert.deepEqual([...new Set(seen)], [undefined]);
  assert.doesNotMatch(repository.url, /me|p%20w/);
});

const REFUSED: readonly (readonly [string, Handler, RegExp])[] = [
  ["is not there", (_, response) => void response.writeHead(404).end(), /answers 404/],
  [
    "redirects for ever",
    (_, response) => void response.writeHead(302, { location: "/repo.tar.gz" }).end(),
    /more than 5 redirects/,
  ],
  [
    "redirects to a file",
    (_, response) => void response.writeHead(302, { location: "file:///etc/passwd" }).end(),
    /is not followed/,
  ],
  ["has no length", (_, response) => void response.writeHead(200).write("x"), /does not tell the length/],
  [
    "holds no model",
    (_, response) => void response.end(gzipSync(tarOf([{ name: "README", content: "x" }]))),
    /holds no folder of a model/,
  ],
];
for (const [title, handler, reason] of REFUSED) {
  test(`refresh() says so when an archive ${title}`, async (t) => {
    const { repository, cacheFolder } = await open(t, `${await serve(t, handler)}/repo.tar.gz`);
    await assert.rejects(repository.refresh(), reason);
    assert.deepEqual(liveFolders(cacheFolder), []);
  });
}
