import assert from "node:assert/strict";
import { test } from "node:test";
import { findGgmlDirectory, GGML_TYPES, openGgml, threadpoolParams } from "./ggml.ts";

test("openGgml() finds the library of this processor and the release it was written for", () => {
  const ggml = openGgml();
  assert.match(ggml.version, /^0\.25\./);
  const backend = ggml.createBackend();
  assert.equal(typeof backend, "bigint");
  ggml.base.backendFree(backend);
});

test("openGgml() may be called twice", () => {
  assert.equal(openGgml().device, openGgml().device);
});

test("findGgmlDirectory() says what is missing from a folder", () => {
  assert.throws(
    () => findGgmlDirectory({ NEREID_GGML_DIR: "/nowhere" }),
    /NEREID_GGML_DIR: expected libggml-base.so in \/nowhere/,
  );
});

test("GGML_TYPES are ggml's own numbers", () => {
  const { base } = openGgml();
  assert.deepEqual(
    Object.values(GGML_TYPES).map((type) => base.typeName(type)),
    Object.keys(GGML_TYPES),
  );
});

test("threadpoolParams() sets the number of threads and how long they spin", () => {
  const fields = new DataView(threadpoolParams(openGgml().base, 3, 7).buffer);
  assert.deepEqual([fields.getInt32(512, true), fields.getUint32(520, true)], [3, 7]);
});
