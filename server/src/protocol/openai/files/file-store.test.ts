import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { FileStore, type NewFile, type StoredFile } from "./file-store.ts";

const NOW_MS = 1_800_000_000_000;
const NOW_S = NOW_MS / 1000;

async function openStore(t: TestContext): Promise<FileStore> {
  const folder = mkdtempSync(join(tmpdir(), "file-store-"));
  t.after(() => rmSync(folder, { recursive: true }));
  t.mock.timers.enable({ apis: ["Date", "setInterval"], now: NOW_MS });
  return FileStore.open(folder);
}

async function add(store: FileStore, text: string, more: Partial<NewFile> = {}): Promise<StoredFile> {
  async function* content(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }
  const upload = await store.receive(content());
  return upload.commit({ owner: "one", fileName: "a", purpose: "batch", ...more });
}

test("a file is there until the second in which it expires", async (t) => {
  const store = await openStore(t);
  const kept = await add(store, "kept");
  const file = await add(store, "gone", { expiresAt: NOW_S + 10 });
  t.mock.timers.tick(9_999);
  assert.deepEqual(store.find("one", file.id), file);
  assert.deepEqual(store.list("one"), [file, kept]);
  t.mock.timers.tick(1);
  assert.equal(store.find("one", file.id), undefined);
  assert.deepEqual(store.list("one"), [kept]);
});

test("what has expired leaves the folder, and gives its room back", async (t) => {
  const store = await openStore(t);
  const kept = await add(store, "kept");
  await add(store, "x".repeat(1000), { expiresAt: NOW_S + 10 });
  const full = store.limits.maxTotalBytes - 4;
  assert.throws(() => store.grow(full), /full/);
  t.mock.timers.tick(60_000);
  while (readdirSync(store.folder).length > 2) await setImmediate();
  assert.deepEqual(readdirSync(store.folder).sort(), [kept.id, `${kept.id}.json`].sort());
  store.grow(full);
});
