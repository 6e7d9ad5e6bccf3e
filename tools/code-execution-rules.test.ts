import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { executionsIn } from "./code-execution-rules.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** Packages that are published. */
const PACKAGES = ["wire", "client", "server", "object-stores", "images", "mcp", "retrieval", "onnx-tools", "offline"];
const IS_SOURCE = /\.ts$/;
const IS_TEST = /\.(test|bench|test-support|d)\.ts$|\/testing\//;

const FOUND: readonly (readonly [source: string, found: string])[] = [
  ["const x = eval(text);", "eval"],
  ["new Function('a', body)", "function"],
  ['import { runInNewContext } from "node:vm";', "vm"],
  ['import { deserialize } from "node:v8";', "deserialize"],
  ["v8.deserialize(bytes)", "deserialize"],
  ["spawn(command, { shell: true })", "shell"],
  ['import { exec } from "node:child_process";', "exec"],
  ['import { execSync, spawn } from "child_process";', "exec"],
];
for (const [source, found] of FOUND) {
  test(`executionsIn() finds ${found} in ${source}`, () => {
    assert.deepEqual(executionsIn(source), [found]);
  });
}

test("executionsIn() leaves names alone that only look like it", () => {
  for (const source of [
    "pattern.exec(text)",
    "evaluate(x)",
    "model.eval()",
    'import { execFile } from "node:child_process";',
    "const shell = true;",
  ]) {
    assert.deepEqual(executionsIn(source), [], source);
  }
});

for (const name of PACKAGES) {
  test(`no source of ${name} turns bytes into code or texts into commands of a shell`, () => {
    const files = readdirSync(`${ROOT}${name}/src`, { recursive: true, encoding: "utf8" }).filter(
      (path) => IS_SOURCE.test(path) && !IS_TEST.test(path),
    );
    assert.ok(files.length > 0);
    for (const file of files) {
      assert.deepEqual(executionsIn(readFileSync(`${ROOT}${name}/src/${file}`, "utf8")), [], `${name}/src/${file}`);
    }
  });
}
