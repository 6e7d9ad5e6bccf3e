import assert from "node:assert/strict";
import { test } from "node:test";
import { resolve } from "./type-stripping-hooks.ts";

/** Resolves a specifier as Node does. */
function finding(...names: readonly string[]) {
  return (specifier: string): Promise<{ url: string }> =>
    names.includes(specifier)
      ? Promise.resolve({ url: `file:///${specifier}` })
      : Promise.reject(new Error(`Cannot find '${specifier}'`));
}

for (const { specifier, there } of [
  { specifier: "./util.ts", there: "./util.ts" },
  { specifier: "./util", there: "./util.ts" },
  { specifier: "./util.js", there: "./util.ts" },
  { specifier: "./util.mjs", there: "./util.mts" },
  { specifier: "../parts", there: "../parts/index.ts" },
  { specifier: "./old", there: "./old.js" },
]) {
  test(`resolve() finds ${there} by "${specifier}"`, async () => {
    assert.equal((await resolve(specifier, {}, finding(there))).url, `file:///${there}`);
  });
}

for (const { specifier, hint } of [
  { specifier: "zod", hint: "npm install zod" },
  { specifier: "zod/v4", hint: "npm install zod" },
  { specifier: "@a/b/c", hint: "npm install @a/b" },
]) {
  test(`resolve() says how the package of "${specifier}" is installed`, async () => {
    await assert.rejects(resolve(specifier, {}, finding()), {
      message: new RegExp(`Cannot find '${specifier}' .*"${hint}"`),
    });
  });
}

test("resolve() leaves the error of a missing file as it is", async () => {
  await assert.rejects(resolve("./none", {}, finding()), { message: "Cannot find './none'" });
});
