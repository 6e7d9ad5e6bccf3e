import assert from "node:assert/strict";
import { test } from "node:test";
import { fullFolders, importCycles, importedPath, importGraph, importsOf } from "./import-graph.ts";

function cyclesOf(sources: Readonly<Record<string, string>>): readonly (readonly string[])[] {
  return importCycles(importGraph(new Map(Object.entries(sources))));
}

test("`importsOf()` finds imports, exports and types, over lines too", () => {
  const text = `import "./a.ts";
import type { B } from "./b.ts";
import {
  c,
  type D,
} from './c.ts';
export * from "./d.ts";
export { e } from "./e.ts";
const load = () => import("./f.ts");
const text = "from nowhere";`;
  assert.deepEqual(importsOf(text), ["./a.ts", "./b.ts", "./c.ts", "./d.ts", "./e.ts", "./f.ts"]);
});

const PATHS: readonly (readonly [file: string, specifier: string, path: string | undefined])[] = [
  ["server/src/a/b.ts", "./c.ts", "server/src/a/c.ts"],
  ["server/src/a/b.ts", "../c.ts", "server/src/c.ts"],
  ["images/src/a.ts", "@nereid/server/core/limits", "server/src/core/limits.ts"],
  ["images/src/a.ts", "@nereid/server/kernels/add/add", "server/kernels/add/add.ts"],
  ["images/src/a.ts", "@nereid/wire", undefined],
  ["images/src/a.ts", "node:fs", undefined],
  ["images/src/a.ts", "sharp", undefined],
];
for (const [file, specifier, path] of PATHS) {
  test(`\`importedPath()\` of "${specifier}" in ${file}`, () => assert.equal(importedPath(file, specifier), path));
}

test("`importCycles()` finds a planted cycle of three files, over packages and types", () => {
  const sources = {
    "server/src/a.ts": 'import { b } from "./b.ts";',
    "server/src/b.ts": 'import type { C } from "@nereid/images/c";',
    "images/src/c.ts": 'export { a } from "@nereid/server/a";',
    "server/src/outside.ts": 'import "./a.ts";',
  };
  assert.deepEqual(cyclesOf(sources), [["images/src/c.ts", "server/src/a.ts", "server/src/b.ts"]]);
});

test("`importCycles()` finds two cycles that share nothing, and a file that imports itself", () => {
  const sources = {
    "s/a.ts": 'import "./b.ts";',
    "s/b.ts": 'import "./a.ts"; import "./c.ts";',
    "s/c.ts": 'import "./d.ts";',
    "s/d.ts": 'import "./c.ts";',
    "s/e.ts": 'import "./e.ts";',
  };
  const found = [...cyclesOf(sources)].sort();
  assert.deepEqual(found, [["s/a.ts", "s/b.ts"], ["s/c.ts", "s/d.ts"], ["s/e.ts"]]);
});

test("`importCycles()` finds none where two ways lead to one file", () => {
  const sources = {
    "s/a.ts": 'import "./b.ts"; import "./c.ts";',
    "s/b.ts": 'import "./d.ts";',
    "s/c.ts": 'import "./d.ts";',
    "s/d.ts": "",
  };
  assert.deepEqual(cyclesOf(sources), []);
});

test("`fullFolders()` counts each level by itself", () => {
  const files = ["a/1.ts", "a/2.ts", "a/3.ts", "a/b/1.ts", "a/b/2.ts"];
  assert.deepEqual([...fullFolders(files, 2)], [["a", 3]]);
  assert.deepEqual([...fullFolders(files, 3)], []);
});
