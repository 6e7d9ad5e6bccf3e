import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CubinCache, cubinKey } from "./cubin-cache.ts";

const SOURCE = { name: "add/add.cu", text: "kernel", headers: new Map([["elem.cuh", "types"]]) };

for (const [what, source, options, driver] of [
  ["the source", { ...SOURCE, text: "kernel 2" }, ["-a"], 13000],
  ["a header", { ...SOURCE, headers: new Map([["elem.cuh", "types 2"]]) }, ["-a"], 13000],
  ["an option", SOURCE, ["-b"], 13000],
  ["the driver", SOURCE, ["-a"], 12080],
  ["where one text ends and the next begins", { ...SOURCE, name: "add/add.cuk", text: "ernel" }, ["-a"], 13000],
] as const) {
  test(`cubinKey() changes with ${what}`, () => {
    assert.notEqual(cubinKey(source, options, driver), cubinKey(SOURCE, ["-a"], 13000));
  });
}

test("cubinKey() is the same for the same", () => {
  assert.equal(cubinKey({ ...SOURCE, headers: new Map(SOURCE.headers) }, ["-a"], 1), cubinKey(SOURCE, ["-a"], 1));
});

test("get() gives what set() was given, and leaves no drafts behind", () => {
  const folder = join(mkdtempSync(join(tmpdir(), "nereid-cubins-")), "deep");
  const cache = new CubinCache(folder);
  assert.equal(cache.get("k"), undefined);
  cache.set("k", Uint8Array.of(1, 2, 3));
  assert.deepEqual([...(new CubinCache(folder).get("k") ?? [])], [1, 2, 3]);
  assert.deepEqual(readdirSync(folder), ["k.cubin"]);
});

test("set() is silent when the folder cannot be made", () => {
  const file = join(mkdtempSync(join(tmpdir(), "nereid-cubins-")), "file");
  writeFileSync(file, "");
  const cache = new CubinCache(join(file, "inside"));
  cache.set("k", Uint8Array.of(1));
  assert.equal(cache.get("k"), undefined);
});
