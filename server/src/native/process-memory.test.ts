import assert from "node:assert/strict";
import { test } from "node:test";
import { openLibrary } from "./ffi.ts";
import { keepFreedMemory } from "./process-memory.ts";

test("keepFreedMemory() makes blocks of request size come from memory that is kept", () => {
  const libc = openLibrary(null);
  const malloc = libc.func<[number], bigint>("malloc", "void*", ["size_t"]);
  const free = libc.func<[bigint], void>("free", "void", ["void*"]);
  assert.equal(keepFreedMemory(), true);
  const first = malloc(2_000_000);
  free(first);
  const second = malloc(2_000_000);
  free(second);
  assert.equal(second, first);
});
