import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";

function consoleOf(...flags: readonly string[]): unknown {
  const parsed = parseServerFlags(["--model-repository=models", ...flags], {});
  assert.equal(parsed.kind, "options");
  return parsed.kind === "options" ? parsed.options.console : undefined;
}

test("the console is on for loopback listeners, and where it is asked for", () => {
  const [off, local, asked] = [
    { isEnabled: false, isRequired: false },
    { isEnabled: true, isRequired: false },
    { isEnabled: true, isRequired: true },
  ];
  assert.deepEqual(consoleOf(), off);
  assert.deepEqual(consoleOf("--http-address=10.0.0.1"), off);
  for (const address of ["127.0.0.1", "127.1.2.3", "localhost", "::1"]) {
    assert.deepEqual(consoleOf(`--http-address=${address}`), local, address);
  }
  assert.deepEqual(consoleOf("--allow-console=true"), asked);
  assert.deepEqual(consoleOf("--http-address=127.0.0.1", "--allow-console=false"), off);
  assert.deepEqual(consoleOf("--http-address=127.0.0.1", "--allow-http=false"), off);
});
