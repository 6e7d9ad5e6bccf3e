import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";

function notYet(...argv: string[]): readonly string[] {
  const parsed = parseServerFlags(argv, {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: { notYet: readonly string[] } }).options.notYet;
}

for (const flag of [
  "--host-policy=p,numa-node=0",
  "--cuda-memory-pool-byte-size=0:1",
  "--cuda-virtual-address-size=0:1",
]) {
  test(`unsupportedFlagMessages() speaks of ${flag}`, () => {
    const [message, ...more] = notYet(flag);
    assert.deepEqual(more, []);
    assert.ok(message?.startsWith(`not supported yet, ignored: ${flag.slice(0, flag.indexOf("="))}`), message);
  });
}

test("unsupportedFlagMessages() is silent about flags that say what is so anyway", () => {
  assert.deepEqual(notYet("--rate-limit=execution_count", "--model-namespacing=true", "--trace-config=level=OFF"), []);
});
