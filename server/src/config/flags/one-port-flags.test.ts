import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";
import type { HttpOptions } from "./server-options.ts";

function httpOptions(argv: readonly string[], env: Readonly<Record<string, string>>): HttpOptions {
  const parsed = parseServerFlags(argv, env);
  assert.equal(parsed.kind, "options");
  return (parsed as { options: { http: HttpOptions } }).options.http;
}

for (const [what, argv, env, port, isOnePort] of [
  ["PORT where a service of Knative says so", [], { K_SERVICE: "s", PORT: "8080" }, 8080, true],
  ["the flags' port", ["--http-port=9", "--one-port=false"], { K_SERVICE: "s", PORT: "8080" }, 9, false],
  ["the flags' port too", ["--http-port=9"], { K_SERVICE: "s", PORT: "8080" }, 9, true],
  ["8000 where PORT is of some other program", [], { PORT: "8080" }, 8000, false],
  ["8000 where a service has no PORT", [], { K_SERVICE: "s" }, 8000, false],
] as const) {
  test(`parseServerFlags() puts HTTP at ${what}`, () => {
    const http = httpOptions(argv, env);
    assert.deepEqual([http.port, http.isOnePort], [port, isOnePort]);
  });
}
