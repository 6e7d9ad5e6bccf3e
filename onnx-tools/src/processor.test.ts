import assert from "node:assert/strict";
import { test } from "node:test";
import { exactWeights } from "./processor.ts";

test("exactWeights() is int8 where products of it are added in 32 bits", () => {
  const table: [string, string, string][] = [
    ["x64", "flags\t\t: fpu avx2 avx512_vnni", "int8"],
    ["x64", "model name: avx_vnni\nflags\t\t: fpu avx2 avx_vnni", "int8"],
    ["x64", "flags\t\t: fpu avx2\nbugs: avx_vnni", "uint8"],
    ["x64", "", "int8"],
    ["arm64", "Features: asimd", "int8"],
  ];
  for (const [arch, info, expected] of table) assert.equal(exactWeights(arch, info), expected, info);
});
