import assert from "node:assert/strict";
import { test } from "node:test";
import {
  documentProblems,
  isProprietary,
  type LockedPackages,
  licenseProblems,
  type Manifest,
  shippedProblems,
} from "./dependency-rules.ts";

const NOT_INSTALLED = (): undefined => undefined;
const GOOD: LockedPackages = {
  "": {},
  server: {},
  "node_modules/@nereid/server": { link: true },
  "node_modules/good": { license: "MIT" },
};

test("`licenseProblems()` finds nothing when every licence is allowed", () => {
  assert.deepEqual(licenseProblems(GOOD, NOT_INSTALLED), []);
});

test("`licenseProblems()` complains when there is nothing to check", () => {
  assert.match(licenseProblems({ "": {}, server: {} }, NOT_INSTALLED).join(), /check itself is broken/);
});

test("`licenseProblems()` names a package without or outside the allowed licences", () => {
  const packages = { ...GOOD, "server/node_modules/bad": { license: "AGPL-3.0-only" }, "node_modules/none": {} };
  const [first, second, ...rest] = licenseProblems(packages, NOT_INSTALLED);
  assert.match(first ?? "", /^server\/node_modules\/bad: .* got AGPL-3.0-only/);
  assert.match(second ?? "", /^node_modules\/none: .* got none/);
  assert.deepEqual(rest, []);
});

test("`licenseProblems()` lets libraries that users may replace be under the LGPL, and nothing else", () => {
  const license = "LGPL-3.0-or-later";
  const packages = { "node_modules/@img/sharp-libvips-linux-x64": { license }, "node_modules/other": { license } };
  const [first, ...rest] = licenseProblems(packages, NOT_INSTALLED);
  assert.match(first ?? "", /^node_modules\/other: /);
  assert.deepEqual(rest, []);
});

test("`licenseProblems()` believes the installed package more than the lock", () => {
  assert.match(licenseProblems(GOOD, () => "GPL-2.0-only").join(), /got GPL-2.0-only/);
  assert.match(licenseProblems(GOOD, () => "ISC").join(), /says MIT, the installed package ISC/);
});

test("`shippedProblems()` names hooks and NVIDIA's packages that users would get, not those of development", () => {
  const packages: LockedPackages = {
    ...GOOD,
    "node_modules/koffi": { hasInstallScript: true },
    "node_modules/hook": { hasInstallScript: true },
    "node_modules/dev-hook": { hasInstallScript: true, dev: true },
    "node_modules/@node-llama-cpp/linux-x64-cuda": {},
  };
  const problems = shippedProblems(packages);
  assert.equal(problems.length, 2);
  assert.match(problems[0] ?? "", /^node_modules\/hook: runs a script/);
  assert.match(problems[1] ?? "", /^node_modules\/@node-llama-cpp\/linux-x64-cuda: NVIDIA's/);
});

test("`shippedProblems()` complains when nothing is shipped", () => {
  assert.match(shippedProblems({ "node_modules/a": { dev: true } }).join(), /check itself is broken/);
});

test("`isProprietary()` knows names of NVIDIA's software", () => {
  for (const name of ["nvidia-ml", "@nvidia/x", "cuda-runtime", "tensorrt", "lib-cudnn9", "x_nccl"]) {
    assert.equal(isProprietary(name), true, name);
  }
  for (const name of ["@node-llama-cpp/linux-x64", "barracuda", "protobufjs"])
    assert.equal(isProprietary(name), false, name);
});

const HEADER = "| dependency | what for | considered | how to leave |\n| --- | --- | --- | --- |\n";
const MANIFEST: Manifest = {
  name: "x",
  version: "1.0.0",
  license: "MIT",
  dependencies: { a: "1.2.3", "@nereid/wire": "0.1.0" },
};

test("`documentProblems()` finds nothing when every dependency has its line", () => {
  assert.deepEqual(documentProblems([MANIFEST], `${HEADER}| \`a\` | for | or | leave |\n`), []);
});

test("`documentProblems()` names missing, stale and unfinished lines, open versions and packages without licence", () => {
  const manifest: Manifest = { name: "x", version: "1.0.0", devDependencies: { a: "^1.2.3", b: "1.0.0" } };
  const problems = documentProblems([manifest], `${HEADER}| \`a\` | for | | leave |\n| \`c\` | for | or | leave |\n`);
  assert.deepEqual(problems.map((problem) => problem.slice(0, 26)).sort(), [
    "a: its line in docs/depend",
    "b: has no line in docs/dep",
    "c: is no dependency, but h",
    "x: a ^1.2.3 is not an exac",
    "x: its package.json names ",
  ]);
});

test("`documentProblems()` complains when there is no dependency at all", () => {
  assert.match(
    documentProblems([{ name: "x", version: "1.0.0", license: "MIT" }], "").join(),
    /check itself is broken/,
  );
});
