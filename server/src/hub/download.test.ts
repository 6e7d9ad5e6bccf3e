import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Reporter } from "../files/progress.ts";
import { type DownloadOptions, type DownloadResult, download } from "./download.ts";
import { placementRank } from "./download-target.ts";
import { FakeHub, gitHash, type HubFault, sha256 } from "./hub-server.test-support.ts";
import { hubSettings } from "./settings.ts";

const LARGE = "model-00001-of-00002.safetensors";
const WEIGHTS = randomBytes(3 << 20);
const MORE_WEIGHTS = randomBytes(1 << 20);
let hub: FakeHub;
let root = "";
let folder = "";
let told: string[] = [];

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-download-"));
  folder = join(root, "tiny");
  told = [];
  hub = await FakeHub.start();
  hub.add("config.json", '{"model_type":"llama"}');
  hub.add("tokenizer.json", "{}");
  hub.add(LARGE, WEIGHTS, true);
  hub.add("model-00002-of-00002.safetensors", MORE_WEIGHTS, true);
  hub.add("onnx/model.onnx", "onnx", true);
  hub.add("empty.txt", "");
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function options(changes: Partial<DownloadOptions> = {}, env: Readonly<Record<string, string>> = {}): DownloadOptions {
  const text = { write: (line: string) => told.push(line) };
  return {
    repo: { type: "model", id: "org/tiny" },
    revision: "main",
    filter: { include: [], exclude: [], servingOnly: false },
    settings: hubSettings({ HF_ENDPOINT: hub.endpoint, HF_HOME: join(root, "home"), ...env }, root),
    localFolder: folder,
    numWorkers: 4,
    verify: false,
    dryRun: false,
    reporter: new Reporter({ mode: "quiet", command: "download", stderr: text, stdout: text }),
    signal: new AbortController().signal,
    firstPauseMs: 1,
    ...changes,
  };
}

const run = (
  changes: Partial<DownloadOptions> = {},
  env: Readonly<Record<string, string>> = {},
): Promise<DownloadResult> => download(options(changes, env));

/** All files of a folder by path, without metadata files. */
function contents(path: string, under = ""): Map<string, Buffer> {
  const entries = readdirSync(join(path, under), { withFileTypes: true }).filter(({ name }) => name !== ".cache");
  const found = new Map<string, Buffer>();
  for (const entry of entries) {
    const name = join(under, entry.name);
    if (!entry.isDirectory()) found.set(name, readFileSync(join(path, name)));
    else for (const [each, content] of contents(path, name)) found.set(each, content);
  }
  return found;
}

function assertWhole(path: string): void {
  const found = contents(path);
  assert.deepEqual([...found.keys()].sort(), [...hub.files.keys()].sort());
  for (const [name, { content }] of hub.files) assert.ok(found.get(name)?.equals(content), name);
}

test("download() brings all files into a plain folder and fetches nothing a second time", async () => {
  const first = await run();
  assertWhole(folder);
  assert.deepEqual([first.path, first.commit, first.fetched.length], [folder, hub.commit, hub.files.size]);
  const asked = hub.requests.length;
  const second = await run();
  assert.equal(second.fetched.length, 0);
  assert.equal(hub.requests.length, asked + 1); // the listing
  assertWhole(folder);
});

test("download() fills the cache as the hub's own tools lay it out", async () => {
  const { path } = await run({ localFolder: undefined });
  const repo = join(root, "home", "hub", "models--org--tiny");
  assert.equal(path, join(repo, "snapshots", hub.commit));
  assertWhole(path);
  assert.equal(readFileSync(join(repo, "refs", "main"), "utf8"), hub.commit);
  assert.equal(readlinkSync(join(path, "onnx", "model.onnx")), `../../../blobs/${sha256(Buffer.from("onnx"))}`);
  assert.equal(readlinkSync(join(path, "tokenizer.json")), `../../blobs/${gitHash(Buffer.from("{}"))}`);
  assert.equal((await run({ localFolder: undefined })).fetched.length, 0);
});

test("download() fetches only what has changed when the branch moves on, and keeps the old commit in the cache", async () => {
  const old = await run({ localFolder: undefined });
  await run();
  hub.commit = "f".repeat(40);
  hub.add("config.json", '{"model_type":"mistral"}');
  const moved = await run({ localFolder: undefined });
  assert.deepEqual(
    moved.fetched.map(({ path }) => path),
    ["config.json"],
  );
  assertWhole(moved.path);
  assert.equal(readFileSync(join(old.path, "config.json"), "utf8"), '{"model_type":"llama"}');
  assert.deepEqual(
    (await run()).fetched.map(({ path }) => path),
    ["config.json"],
  );
  assertWhole(folder);
});

const CUT: HubFault = { kind: "cut", afterBytes: 1 << 20 };
const CURABLE: readonly [string, HubFault[], number][] = [
  ["the connection is cut twice", [CUT, { kind: "cut", afterBytes: 100 }], 2],
  ["the connection is cut before the first byte", [{ kind: "cut", afterBytes: 0 }], 1],
  ["one bit arrives wrong", [{ kind: "wrong bytes" }], 1],
  ["one bit arrives wrong after a cut", [CUT, { kind: "wrong bytes" }], 2],
  ["more bytes arrive than there are", [{ kind: "too long" }], 1],
  ["the server forgets how to resume", [CUT, { kind: "no ranges" }], 1],
  ["the server answers with another range", [CUT, { kind: "wrong range" }], 2],
  [
    "the server is busy",
    [
      { kind: "status", status: 503 },
      { kind: "status", status: 429, headers: { "retry-after": "0" } },
    ],
    2,
  ],
];

for (const [title, faults, numRetries] of CURABLE) {
  test(`download() gets over it when ${title}`, async () => {
    hub.fail(LARGE, ...faults);
    await run();
    assertWhole(folder);
    assert.equal(hub.fetches(LARGE).length, numRetries + 1);
    assert.equal(told.filter((line) => line.includes("trying again")).length, numRetries);
  });
}

test("download() asks for the missing part only after a cut", async () => {
  hub.fail(LARGE, { kind: "cut", afterBytes: 1 << 20 });
  await run();
  const [first, second, ...others] = hub.fetches(LARGE).map(({ range }) => range);
  assert.deepEqual([first, others], [undefined, []]);
  // When the cut follows a chunk directly, its end may be lost in transit.
  const [, from = "0"] = /^bytes=(\d+)-$/.exec(second ?? "") ?? [];
  assert.ok(Number(from) > 0 && Number(from) <= 1 << 20, second);
});

test("download() ends a connection in which nothing arrives", async () => {
  hub.fail("config.json", { kind: "silence" });
  await run({}, { HF_HUB_DOWNLOAD_TIMEOUT: "0.3" });
  assertWhole(folder);
  assert.match(told.join(""), /config\.json: nothing came for 0\.3 seconds/);
});

test("download() shows no file when one of them cannot be had, and goes on from there", async () => {
  const name = "model-00002-of-00002.safetensors";
  hub.fail(name, ...Array.from({ length: 6 }, (): HubFault => ({ kind: "wrong bytes" })));
  await assert.rejects(
    run({ numWorkers: 1 }),
    /model-00002.*content is wrong: expected sha256 .*; given up after 6 attempts/,
  );
  assert.deepEqual([...contents(folder).keys()], []);
  const result = await run();
  assertWhole(folder);
  assert.equal(hub.fetches(LARGE).length, 1); // checked by the first run
  assert.equal(
    result.fetched.some(({ path }) => path === LARGE),
    false,
  );
});

test("download() closes a model while its files change: a failure in the middle leaves the old one, whole", async () => {
  await run();
  const before = contents(folder);
  hub.commit = "e".repeat(40);
  hub.add(LARGE, randomBytes(2 << 20), true);
  hub.add("model-00002-of-00002.safetensors", randomBytes(2 << 20), true);
  hub.fail("model-00002-of-00002.safetensors", { kind: "status", status: 410 });
  await assert.rejects(run({ numWorkers: 1 }), /answers 410/);
  assert.deepEqual(contents(folder), before);
  await run();
  assertWhole(folder);
});

test("download() finds what is damaged on the disk: by size and date at once, by content when asked", async () => {
  await run();
  const path = join(folder, LARGE);
  const changed = Buffer.from(WEIGHTS);
  changed[7] = (changed[7] ?? 0) ^ 255;
  const { mtime } = lstatSync(path);
  writeFileSync(path, changed);
  utimesSync(path, mtime, mtime);
  assert.equal((await run()).fetched.length, 0);
  assert.equal((await run({ verify: true })).fetched.length, 1);
  assertWhole(folder);
  writeFileSync(path, "short");
  assert.equal((await run()).fetched.length, 1);
  assertWhole(folder);
});

test("download() checks files that other tools brought instead of fetching them again", async () => {
  for (const [name, { content }] of hub.files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  assert.equal((await run()).fetched.length, 0);
});

test("download() leaves other files of the folder alone", async () => {
  mkdirSync(folder);
  writeFileSync(join(folder, "mine.txt"), "mine");
  await run();
  assert.equal(readFileSync(join(folder, "mine.txt"), "utf8"), "mine");
});

test("download() sends the token to the hub and to nobody else", async () => {
  hub.token = "hf_secret";
  await run({}, { HUGGING_FACE_HUB_TOKEN: "hf_secret" });
  const tokens = (origin: string): Set<string | undefined> =>
    new Set(hub.requests.filter((each) => each.origin === origin).map(({ authorization }) => authorization));
  assert.deepEqual([tokens("hub"), tokens("content")], [new Set(["Bearer hf_secret"]), new Set([undefined])]);
});

test("download() takes the token from the file that the hub's login writes", async () => {
  hub.token = "hf_file";
  mkdirSync(join(root, "home"));
  writeFileSync(join(root, "home", "token"), "hf_file\n");
  await run();
  assertWhole(folder);
});

const REFUSED: readonly [string, () => void, RegExp][] = [
  ["a token is missing", () => (hub.token = "x"), /answers 401: there is no such repository/],
  [
    "a model is gated",
    () => hub.fail("listing", { kind: "status", status: 403, headers: { "x-error-code": "GatedRepo" } }),
    /is not open to visitors without a token/,
  ],
  [
    "the revision is not there",
    () => hub.fail("listing", { kind: "status", status: 404, headers: { "x-error-code": "RevisionNotFound" } }),
    /there is no such revision/,
  ],
  ["the answer is no listing", () => (hub.listing = { hello: 1 }), /is no listing of a repository/],
  [
    "the answer is a list of nonsense",
    () => (hub.listing = { sha: "a".repeat(40), siblings: [null] }),
    /has a file without a name/,
  ],
];

for (const [title, arrange, expected] of REFUSED) {
  test(`download() says so when ${title}`, async () => {
    arrange();
    await assert.rejects(run(), expected);
  });
}

const HOSTILE: readonly [string, Record<string, unknown>, RegExp][] = [
  ["a name that climbs out", { rfilename: "../../etc/passwd" }, /its name leaves the folder/],
  ["an absolute name", { rfilename: "/etc/passwd" }, /its name leaves the folder/],
  ["a name of another system", { rfilename: "..\\..\\x" }, /backslash or a colon/],
  ["a name with a line break", { rfilename: "a\nb" }, /control character/],
  ["a name without end", { rfilename: "a".repeat(5000) }, /its name has 5000 bytes/],
  ["a name among our marks", { rfilename: ".cache/huggingface/download/x.metadata" }, /among the records of downloads/],
  ["a negative length", { rfilename: "a", size: -1 }, /the length -1/],
  ["a length beyond all disks", { rfilename: "a", size: 2 ** 60 }, /the length 11529215\d+/],
  ["a hash that is a path", { rfilename: "a", size: 1, blobId: "../../../x".padEnd(40, "x") }, /the hash/],
  ["an empty hash", { rfilename: "a", size: 1, lfs: { size: 1, sha256: "" } }, /the hash ""/],
];

for (const [title, sibling, expected] of HOSTILE) {
  test(`download() refuses ${title} and writes nothing`, async () => {
    hub.listing = { sha: hub.commit, siblings: [{ size: 1, blobId: "0".repeat(40), ...sibling }] };
    await assert.rejects(run(), expected);
    assert.deepEqual(readdirSync(root), []);
  });
}

test("download() refuses a path that is a file and a folder, or there twice", async () => {
  const file = (rfilename: string): object => ({ rfilename, size: 0, blobId: "0".repeat(40) });
  hub.listing = { sha: hub.commit, siblings: [file("a"), file("a/b")] };
  await assert.rejects(run(), /has 'a' as a file and as a folder/);
  hub.listing = { sha: hub.commit, siblings: [file("a"), file("a")] };
  await assert.rejects(run(), /names a file twice/);
});

test("download() fetches what the patterns want", async () => {
  const { files } = await run({
    filter: { include: ["*.safetensors", "onnx/"], exclude: ["*00002-of*"], servingOnly: false },
  });
  assert.deepEqual(files.map(({ path }) => path).sort(), [LARGE, "onnx/model.onnx"]);
  const serving = await run({ filter: { include: [], exclude: [], servingOnly: true } });
  assert.equal(
    serving.files.some(({ path }) => path.endsWith(".onnx")),
    false,
  );
  await assert.rejects(
    run({ filter: { include: ["*.gguf"], exclude: [], servingOnly: false } }),
    /No file of org\/tiny is wanted: it has config\.json,/,
  );
});

test("download() with dryRun looks and writes nothing", async () => {
  const { fetched } = await run({ dryRun: true });
  assert.equal(fetched.length, hub.files.size);
  assert.deepEqual(readdirSync(root), []);
});

test("download() uses what is there and no network when offline", async () => {
  const offline = { HF_HUB_OFFLINE: "1" };
  await assert.rejects(run({}, offline), /There is no download in .*tiny, and the network may not be used/);
  await assert.rejects(run({ localFolder: undefined }, offline), /org\/tiny at 'main' is not in the cache/);
  await run();
  const { path } = await run({ localFolder: undefined });
  const asked = hub.requests.length;
  assert.equal((await run({}, offline)).path, folder);
  assert.equal((await run({ localFolder: undefined }, offline)).path, path);
  assert.equal((await run({ localFolder: undefined, revision: hub.commit }, offline)).path, path);
  assert.equal(hub.requests.length, asked);
  rmSync(join(path, readlinkSync(join(path, "config.json"))));
  await assert.rejects(run({ localFolder: undefined }, offline), /config\.json leads to a file that is not there/);
});

test("download() refuses to use a folder offline whose download was cut short", async () => {
  await run({ filter: { include: ["config.json"], exclude: [], servingOnly: false } });
  hub.fail("tokenizer.json", { kind: "status", status: 410 });
  await assert.rejects(run({ numWorkers: 1 }), /answers 410/);
  await assert.rejects(run({}, { HF_HUB_OFFLINE: "true" }), /The download in .* is not complete/);
});

test("download() says when there is no hub", async () => {
  const closed = await FakeHub.start();
  const settings = hubSettings({ HF_ENDPOINT: closed.endpoint, HF_HOME: root }, root);
  await closed[Symbol.asyncDispose]();
  await assert.rejects(run({ settings }), /Cannot reach 127\.0\.0\.1:\d+: .*ECONNREFUSED/);
});

test("download() stops at once when interrupted and keeps what has arrived", async () => {
  hub.bytesPerSecond = 2 << 20;
  const interruption = new AbortController();
  const running = run({ signal: interruption.signal, numWorkers: 2 });
  while (hub.fetches(LARGE).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await new Promise((resolve) => setTimeout(resolve, 300));
  interruption.abort(new Error("enough"));
  await assert.rejects(running, /enough/);
  assert.deepEqual([...contents(folder).keys()], []);
  hub.bytesPerSecond = Number.POSITIVE_INFINITY;
  hub.requests.length = 0;
  await run();
  assertWhole(folder);
  assert.match(hub.fetches(LARGE)[0]?.range ?? "", /^bytes=[1-9]\d*-$/);
});

test("placementRank() lets what opens a model come last", () => {
  const paths = [
    "model.safetensors",
    "tokenizer.json",
    "config.json",
    "sub/config.json",
    "m.gguf",
    "model.onnx",
    "vocab.txt",
  ];
  assert.deepEqual(paths.map(placementRank), [0, 1, 2, 2, 2, 1, 0]);
});

test("download() leaves no model to load when it is stopped while files move into place", async () => {
  mkdirSync(join(folder, "tokenizer.json", "in the way"), { recursive: true });
  await assert.rejects(run());
  assert.equal(readdirSync(folder).includes("config.json"), false);
  rmSync(join(folder, "tokenizer.json"), { recursive: true });
  hub.requests.length = 0;
  await run();
  assertWhole(folder);
  assert.equal(hub.requests.length, 1);
});
