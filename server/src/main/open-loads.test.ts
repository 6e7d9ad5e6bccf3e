import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import { ServerError } from "../core/server-error.ts";
import { RepositoryServer, type RepositoryServerOptions } from "../repository/model-server.ts";
import { openLoadsWarning } from "./open-loads.ts";

const HTTP_KEY = "--http-restricted-api=model-repository:k=v";
const GRPC_KEY = "--grpc-restricted-protocol=model-repository:k=v";
const EXPLICIT = "--model-control-mode=explicit";
const LOCAL = ["--http-address=127.0.0.1", "--grpc-address=localhost"];

function warning(...flags: string[]): string | undefined {
  const parsed = parseServerFlags(["--model-repository=/m", ...flags], {});
  assert.equal(parsed.kind, "options");
  return openLoadsWarning(parsed.options);
}

test("a server whose load requests may bring code says so, unless it is locked or local", () => {
  assert.match(warning(EXPLICIT) ?? "", /names-only, or .* by --http-restricted-api and --grpc-restricted-protocol$/);
  assert.match(warning(EXPLICIT, HTTP_KEY) ?? "", /by --grpc-restricted-protocol$/);
  assert.match(warning(EXPLICIT, LOCAL[0] ?? "") ?? "", /by --grpc-restricted-protocol$/);
  for (const flags of [
    [],
    [EXPLICIT, "--model-load-overrides=names-only"],
    [EXPLICIT, HTTP_KEY, GRPC_KEY],
    [EXPLICIT, ...LOCAL],
    [EXPLICIT, HTTP_KEY, "--allow-grpc=false"],
    [EXPLICIT, "--http-address=unix:/x", GRPC_KEY],
  ]) {
    assert.equal(warning(...flags), undefined, flags.join(" "));
  }
});

test("--model-load-overrides takes two values", () => {
  const parsed = parseServerFlags(["--model-repository=/m", "--model-load-overrides=none"], {});
  assert.equal(parsed.kind, "usage");
});

test("a server that loads by name only refuses a configuration and files", async () => {
  const loads: string[] = [];
  const manager = { load: async (name: string) => void loads.push(name) };
  const options = { manager, isExplicit: true, refusesOverrides: true } as unknown as RepositoryServerOptions;
  const server = new RepositoryServer(options);
  await server.load("m", { files: new Map() });
  const refused = (error: unknown): boolean =>
    error instanceof ServerError && error.code === "unsupported" && /by name only/.test(error.message);
  await assert.rejects(server.load("m", { config: "{}" }), refused);
  await assert.rejects(server.load("m", { files: new Map([["1/model.py", new Uint8Array(1)]]) }), refused);
  assert.deepEqual(loads, ["m"]);
});
