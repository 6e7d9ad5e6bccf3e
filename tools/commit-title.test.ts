import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { messageProblems, titleOf, titleProblems } from "./commit-title.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

for (const title of [
  "fix(scheduler): keep a cancelled request out of the batch",
  "refactor: give every prefix a folder",
  "feat(http)!: refuse bodies without a length",
  "perf(gpu, cpu): fuse the epilogue",
  `docs: ${"x".repeat(66)}`,
  'Revert "fix(http): a thing that does not matter at all and whose title is long enough"',
]) {
  test(`titleProblems() finds nothing in: ${title.slice(0, 40)}`, () => assert.deepEqual(titleProblems(title), []));
}

for (const [title, problem] of [
  [`docs: ${"x".repeat(67)}`, /at most 72 characters expected, got 73/],
  ["keep a cancelled request out", /"type\(scope\): imperative" expected/],
  ["Fix(http): keep it", /"type\(scope\): imperative" expected/],
  ["fix(http):keep it", /"type\(scope\): imperative" expected/],
  ["improve(http): keep it", /a type among feat, .* got "improve"/],
  ["fix(gpu): there is room for the rows", /an imperative expected after the colon, got "there"/],
  ["fix(gpu): added room for the rows", /an imperative expected after the colon, got "added"/],
  ["fix(gpu): make room.", /no final period expected/],
] as const) {
  test(`titleProblems() names the rule that is broken by: ${title.slice(0, 40)}`, () => {
    assert.match(titleProblems(title).join("; "), problem);
  });
}

test("titleOf() and messageProblems() leave out comments, and want an empty line below the title", () => {
  const message = "\n# Please enter the message\nfix: keep it\n\nA body.\n# On branch main\n";
  assert.equal(titleOf(message), "fix: keep it");
  assert.deepEqual(messageProblems(message), []);
  assert.deepEqual(messageProblems("fix: keep it\nand this\n"), ["an empty line expected below the title"]);
  assert.deepEqual(messageProblems("# only a comment\n"), ["a title expected, got an empty message"]);
});

test("the hook `commit-msg` refuses a commit with a bad title and lets a good one pass", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-hook-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ["tools", "node_modules", "package.json"]) symlinkSync(join(ROOT, name), join(folder, name));
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
  const git = (...argv: readonly string[]) => spawnSync("git", ["-C", folder, ...argv], { encoding: "utf8", env });
  execFileSync("git", ["init", "-q", folder], { env });
  for (const [name, value] of [
    ["core.hooksPath", join(ROOT, ".githooks")],
    ["user.name", "A Tester"],
    ["user.email", "tester@example.org"],
  ] as const) {
    git("config", name, value);
  }
  writeFileSync(join(folder, "a.txt"), "a\n");
  git("add", "a.txt");
  const bad = git("commit", "-m", "there is a file now");
  assert.equal(bad.status, 1, bad.stderr);
  assert.match(bad.stderr, /commit title "there is a file now": "type\(scope\): imperative" expected/);
  assert.equal(git("rev-list", "--all", "--count").stdout.trim(), "0");
  const good = git("commit", "-m", "feat: add a file");
  assert.equal(good.status, 0, good.stderr);
  assert.equal(git("log", "--format=%s").stdout.trim(), "feat: add a file");
});
