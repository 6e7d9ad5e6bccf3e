/** The pages of docs/commands: their flags are those of the commands. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { test } from "node:test";
import { commandPages, flagsOf, pagesWithTables } from "../../tools/command-pages.ts";

test("flagsOf() reads names and what they mean, over as many lines as it takes", () => {
  const help = [
    "Options:",
    "  -o, --output DIR            where it goes, or",
    "                              elsewhere",
    "  --a-name-that-is-too-long TEXT",
    "                              and its meaning",
    "",
    "Examples:",
    "  nereid x --output y",
  ].join("\n");
  assert.deepEqual(flagsOf(help), [
    { names: "-o, --output DIR", summary: "where it goes, or elsewhere" },
    { names: "--a-name-that-is-too-long TEXT", summary: "and its meaning" },
  ]);
});

test("docs/commands has the flags that the commands have", async () => {
  const pages = commandPages().filter((path) => basename(path) !== "README.md");
  assert.ok(pages.length >= 13);
  const texts = pages.map((path) => readFileSync(path, "utf8"));
  for (const [i, written] of (await pagesWithTables(texts)).entries()) {
    assert.equal(texts[i], written, `${pages[i]}: run tools/command-pages.ts`);
  }
});

test("docs/commands/README.md lists every page", () => {
  const [listed = ""] = commandPages().filter((path) => basename(path) === "README.md");
  const text = readFileSync(listed, "utf8");
  const missing = commandPages().filter((path) => path !== listed && !text.includes(`(${basename(path)})`));
  assert.deepEqual(missing, []);
});
