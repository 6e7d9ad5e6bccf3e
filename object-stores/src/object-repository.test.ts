import assert from "node:assert/strict";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ObjectCache } from "./object-cache.ts";
import type { StoreFault } from "./object-server.test-support.ts";
import { contents, DIALECTS, filesIn, liveFolders, openTestStore } from "./open-stores.test-support.ts";

const LARGE = Buffer.alloc(300_000, "0123456789abcdef");

for (const dialect of DIALECTS) {
  describe(`a repository in a store of kind ${dialect}`, () => {
    test("refresh() names the folders beneath the path, over all pages, and nothing beside it", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      for (const name of ["a", "b", "c", "d", "ü & é+1"]) server.put(`repo/${name}/config.pbtxt`, "");
      server.put("repo/README.md", "no model");
      server.put("repository-of-others/x/config.pbtxt", "");
      const repository = await open();
      await repository.refresh();
      assert.deepEqual(repository.models(), ["a", "b", "c", "d", "ü & é+1"]);
    });

    test("localize() puts all files of a model on the disk, empty folders too, until they are released", async (t) => {
      const { server, cacheFolder, open, lines } = await openTestStore(t, dialect);
      server.put("repo/m/config.pbtxt", "configuration");
      server.put("repo/m/1/", "");
      server.put("repo/m/2/weights & biases+1.bin", LARGE);
      server.put("repo/other/config.pbtxt", "of another");
      const repository = await open();
      const local = await repository.localize("m");
      const files = { "m/1/": "", "m/2/weights & biases+1.bin": LARGE.toString(), "m/config.pbtxt": "configuration" };
      assert.deepEqual(filesIn(local.repositoryPath), files);
      assert.match(lines.join(""), /fetching '[^']*\/repo\/m': 2 files.*\n(.*\n)*.*fetched/);
      await local.release();
      assert.deepEqual(liveFolders(cacheFolder), []);
      assert.equal(contents(cacheFolder).length, 2);
    });

    test("localize() fetches what has changed and nothing else", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      server.put("repo/m/config.pbtxt", "one");
      server.put("repo/m/1/weights", "the same");
      const repository = await open({ isWatched: true });
      await repository.refresh();
      const before = repository.fingerprint("m");
      const first = await repository.localize("m");
      assert.equal(first.fingerprint, before);
      server.put("repo/m/config.pbtxt", "two");
      await repository.refresh();
      assert.notEqual(repository.fingerprint("m"), before);
      const second = await repository.localize("m");
      assert.deepEqual(filesIn(second.repositoryPath), { "m/1/weights": "the same", "m/config.pbtxt": "two" });
      assert.equal(filesIn(first.repositoryPath)["m/config.pbtxt"], "one");
      assert.equal(server.gets("repo/m/1/weights").length, 1);
      assert.equal(server.gets("repo/m/config.pbtxt").length, 2);
    });

    const FAULTS: readonly (readonly [string, readonly StoreFault[], readonly (string | undefined)[]])[] = [
      ["the connection is cut", [{ kind: "cut", afterBytes: 10_000 }], [undefined, "bytes=10000-"]],
      [
        "it is cut twice",
        [
          { kind: "cut", afterBytes: 7 },
          { kind: "cut", afterBytes: 9 },
        ],
        [undefined, "bytes=7-", "bytes=16-"],
      ],
      ["bytes are wrong", [{ kind: "wrong bytes" }], [undefined, undefined]],
      ["too much comes", [{ kind: "too long" }], [undefined, undefined]],
      [
        "the store has trouble",
        [
          { kind: "status", status: 503 },
          { kind: "status", status: 500 },
        ],
        [undefined, undefined, undefined],
      ],
      ["nothing comes at all", [{ kind: "silence" }], [undefined, undefined]],
      ["ranges are not known", [{ kind: "cut", afterBytes: 5 }, { kind: "no ranges" }], [undefined, "bytes=5-"]],
    ];
    for (const [title, faults, ranges] of FAULTS) {
      test(`localize() gives the right bytes although ${title}`, async (t) => {
        const { server, open } = await openTestStore(t, dialect);
        server.put("repo/m/1/weights", LARGE);
        server.fail("repo/m/1/weights", ...faults);
        const local = await (await open()).localize("m");
        assert.equal(filesIn(local.repositoryPath)["m/1/weights"], LARGE.toString());
        assert.deepEqual(
          server.gets("repo/m/1/weights").map(({ range }) => range),
          ranges,
        );
      });
    }

    test("localize() gives up on bytes that stay wrong, and leaves nothing that could be loaded", async (t) => {
      const { server, cacheFolder, open } = await openTestStore(t, dialect);
      server.put("repo/m/1/weights", LARGE);
      server.put("repo/m/config.pbtxt", "");
      server.fail("repo/m/1/weights", ...Array.from({ length: 20 }, (): StoreFault => ({ kind: "wrong bytes" })));
      await assert.rejects(
        (await open()).localize("m"),
        /its content is wrong: expected md5 .*given up after 6 attempts/,
      );
      assert.deepEqual(liveFolders(cacheFolder), []);
      assert.equal(server.gets("repo/m/1/weights").length, 6);
    });

    test("localize() looks again when an object has changed since it was listed", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      server.put("repo/m/1/weights", "old");
      const repository = await open();
      server.fail("repo/m/1/weights", { kind: "status", status: 503 });
      const bringing = repository.localize("m");
      while (server.gets("repo/m/1/weights").length === 0) await sleep(1);
      server.put("repo/m/1/weights", "new, and longer");
      assert.equal(filesIn((await bringing).repositoryPath)["m/1/weights"], "new, and longer");
    });

    test("a second process goes on where the first was killed", async (t) => {
      const { server, cacheFolder, open } = await openTestStore(t, dialect);
      server.put("repo/m/1/weights", LARGE);
      server.fail(
        "repo/m/1/weights",
        ...Array.from({ length: 6 }, (): StoreFault => ({ kind: "cut", afterBytes: 1000 })),
      );
      await assert.rejects((await open()).localize("m"), /the connection ended|terminated|aborted|closed/);
      assert.match(contents(cacheFolder).join(), /\.part$/);
      const local = await (await open()).localize("m");
      assert.equal(filesIn(local.repositoryPath)["m/1/weights"], LARGE.toString());
      assert.equal(server.gets("repo/m/1/weights").at(-1)?.range, "bytes=6000-");
    });

    test("a listing that fails for a while is asked for again; a refusal is told", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      server.put("repo/m/config.pbtxt", "");
      server.fail(
        "list",
        { kind: "status", status: 500 },
        { kind: "status", status: 503 },
        { kind: "status", status: 404 },
      );
      const repository = await open();
      await assert.rejects(repository.refresh(), /answers 404/);
      assert.equal(server.gets("list").length, 3);
      await repository.refresh();
      assert.deepEqual(repository.models(), ["m"]);
    });

    const EVIL = [
      "repo/m/../../../etc/cron.d/x",
      "repo/m/./x",
      "repo/m/a\\b",
      "repo/m/\u0001",
      `repo/m/${"x".repeat(300)}`,
    ];
    for (const name of EVIL) {
      test(`localize() refuses a model with an object called ${JSON.stringify(name.slice(0, 30))}`, async (t) => {
        const { server, cacheFolder, open } = await openTestStore(t, dialect);
        server.put(name, "evil");
        await assert.rejects((await open()).localize("m"), /has the object .*: (it|a part)/);
        assert.deepEqual(liveFolders(cacheFolder), []);
      });
    }

    test("localize() refuses an object that is a folder of others as well", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      server.put("repo/m/1", "a file");
      server.put("repo/m/1/weights", "in a folder");
      await assert.rejects((await open()).localize("m"), /"m\/1" as an object and as a folder/);
    });

    test("close() ends a download", async (t) => {
      const { server, open } = await openTestStore(t, dialect);
      server.put("repo/m/1/weights", LARGE);
      server.bytesPerSecond = 1000;
      const repository = await open();
      const bringing = assert.rejects(repository.localize("m"), /the server ends/);
      while (server.gets("repo/m/1/weights").length === 0) await sleep(1);
      await repository.close();
      await bringing;
    });
  });
}

test("many models brought at once share what is the same and release it when the last is gone", async (t) => {
  const { server, open, env, cacheFolder } = await openTestStore(t, "s3");
  for (let i = 0; i < 20; i += 1) server.put(`repo/m/${i}/weights`, `weights ${i}`);
  const { NEREID_MODEL_CACHE: _named, ...unnamed } = env;
  const repository = await open({ env: { ...unnamed, TRITON_AWS_MOUNT_DIRECTORY: cacheFolder } });
  const models = await Promise.all(Array.from({ length: 5 }, () => repository.localize("m")));
  assert.equal(server.gets("repo/m/7/weights").length, 1);
  const [first, ...others] = models;
  await first?.release();
  for (const other of others) assert.equal(filesIn(other.repositoryPath)["m/7/weights"], "weights 7");
});

test("a content that another server removes in the moment it is needed is fetched again", async (t) => {
  const { server, open } = await openTestStore(t, "s3");
  server.put("repo/m/1/weights", "w");
  const fetch = ObjectCache.prototype.fetch;
  let left = 2;
  t.mock.method(ObjectCache.prototype, "fetch", async function (this: ObjectCache, ...given: Parameters<typeof fetch>) {
    const path = await fetch.apply(this, given);
    left -= 1;
    if (left >= 0) rmSync(path);
    return path;
  });
  const { repositoryPath } = await (await open()).localize("m");
  assert.equal(filesIn(repositoryPath)["m/1/weights"], "w");
  assert.equal(server.gets("repo/m/1/weights").length, 3);
});

test("a model cache that others can write to is refused", async (t) => {
  const { open, env, cacheFolder } = await openTestStore(t, "s3");
  const folder = join(cacheFolder, "shared");
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  await assert.rejects(open({ env: { ...env, NEREID_MODEL_CACHE: folder } }), /can be changed by other users/);
});

test("folders of processes that are gone are removed at the start, others stay", async (t) => {
  const { open, cacheFolder } = await openTestStore(t, "s3");
  const dead = join(cacheFolder, `live-${hostname()}-4194305-1-aa`);
  const elsewhere = join(cacheFolder, "live-another.host-4194305-1-bb");
  for (const folder of [dead, elsewhere]) {
    mkdirSync(folder);
    writeFileSync(join(folder, "file"), "");
  }
  await open();
  assert.deepEqual(liveFolders(cacheFolder), ["live-another.host-4194305-1-bb"]);
});

test("servers that share a cache fetch a content once, whichever comes first", async (t) => {
  const { server, open } = await openTestStore(t, "s3");
  server.put("repo/m/1/weights", LARGE);
  server.bytesPerSecond = 600_000;
  const repositories = await Promise.all([open(), open(), open()]);
  const models = await Promise.all(repositories.map((repository) => repository.localize("m")));
  for (const { repositoryPath } of models) assert.equal(filesIn(repositoryPath)["m/1/weights"], LARGE.toString());
  assert.equal(server.gets("repo/m/1/weights").length, 1);
});
