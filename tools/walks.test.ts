/** Holds the walks of docs/architecture.md: every file exists, and none imports an earlier one, directly or through others. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*)"(\.{1,2}\/[^"]+)"/g;
const imports = new Map<string, ReadonlySet<string>>();

function importsOf(file: string): ReadonlySet<string> {
  const known = imports.get(file);
  if (known !== undefined) return known;
  const found = [...readFileSync(file, "utf8").matchAll(IMPORT)].map(([, path = ""]) => join(dirname(file), path));
  const existing = new Set(found.filter((path) => path.endsWith(".ts") && existsSync(path)));
  imports.set(file, existing);
  return existing;
}

function reachedFrom(file: string): Set<string> {
  const reached = new Set<string>();
  const open = [file];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const imported of importsOf(next)) {
      if (reached.has(imported)) continue;
      reached.add(imported);
      open.push(imported);
    }
  }
  return reached;
}

const page = readFileSync("docs/architecture.md", "utf8");
const [, section = ""] = /\n## Walks\n([\s\S]*?)(?=\n## )/.exec(page) ?? [];
const walks = section
  .split("\n### ")
  .slice(1)
  .map((text) => ({
    title: text.split("\n")[0] ?? "",
    files: [...text.matchAll(/^\d+\. `([^`]+)`$/gm)].map(([, file = ""]) => file),
  }));

test("there are walks of a request, a load, a weight and a token", () => {
  assert.ok(walks.length >= 6, `${walks.length} walks`);
  for (const { title, files } of walks) assert.ok(files.length >= 5, title);
});

for (const { title, files } of walks) {
  test(`no file imports an earlier one: ${title}`, () => {
    for (const [i, file] of files.entries()) {
      const reached = reachedFrom(file);
      assert.deepEqual(
        files.slice(0, i).filter((earlier) => reached.has(earlier)),
        [],
        file,
      );
    }
  });
}
