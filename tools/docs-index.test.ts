import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { referencesIn } from "./markdown-links.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

for (const { index, folder } of [
  { index: "docs/README.md", folder: "docs" },
  { index: "docs/decisions/README.md", folder: "docs/decisions" },
  { index: "docs/commands/README.md", folder: "docs/commands" },
  { index: "docs/recipes/README.md", folder: "docs/recipes" },
  { index: "bench/README.md", folder: "bench/results" },
  { index: "bench/README.md", folder: "bench/gpu/results" },
]) {
  test(`${index} links to every page of ${folder}`, () => {
    const links = referencesIn(readFileSync(join(ROOT, index), "utf8")).filter(({ kind }) => kind === "link");
    const linked = new Set(links.map(({ target }) => posix.join(posix.dirname(index), target)));
    const pages = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith(".md") && name !== "README.md");
    assert.ok(pages.length > 0);
    assert.deepEqual(
      pages.filter((page) => !linked.has(posix.join(folder, page))),
      [],
    );
  });
}
