import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";

test("clients may register shared memory only where a flag says so", () => {
  for (const [flags, isAllowed] of [
    [[], false],
    [["--allow-client-shm=true"], true],
    [["--allow-client-shm=false"], false],
  ] as const) {
    const parsed = parseServerFlags(["--model-repository=/m", ...flags], {});
    assert.equal(parsed.kind, "options");
    assert.equal(parsed.options.memory.allowClientSharedMemory, isAllowed);
  }
});
