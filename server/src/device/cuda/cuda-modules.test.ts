import assert from "node:assert/strict";
import { test } from "node:test";
import { askedKey } from "./cuda-modules.ts";
import type { KernelSpec } from "./kernel-stream.ts";

const SPEC: KernelSpec = { source: "a/b.cu", name: "b", defines: { WIDTH: 8, FAST: 1 } };

test("askedKey() is the same for equal specs and tells all others apart", () => {
  const others: readonly KernelSpec[] = [
    { ...SPEC, source: "a/c.cu" },
    { ...SPEC, name: "c" },
    { ...SPEC, defines: { WIDTH: 81 } },
    { ...SPEC, defines: { WIDTH: 8 } },
    { ...SPEC, defines: { WIDTH: 8, FAST: 1, ODD: 1 } },
    { ...SPEC, usesProgrammaticLaunch: true },
  ];
  assert.equal(askedKey(SPEC), askedKey({ ...SPEC, defines: { WIDTH: 8, FAST: 1 }, usesProgrammaticLaunch: false }));
  assert.equal(new Set([SPEC, ...others].map(askedKey)).size, others.length + 1);
});
