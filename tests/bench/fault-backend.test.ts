/** The example of docs/fault-backend.md on the built server. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PAGE = readFileSync(new URL("../../docs/fault-backend.md", import.meta.url), "utf8");
const [, CONFIG = ""] = /```text\n([\s\S]*?)```/.exec(PAGE) ?? [];
const [, PATH = "", BODY = ""] = /curl localhost:8000(\S+) -d '([\s\S]*?)'/.exec(PAGE) ?? [];
const repository = mkdtempSync(join(tmpdir(), "nereid-fault-"));
let server: ServerProcess;

before(async () => {
  mkdirSync(join(repository, "flaky", "1"), { recursive: true });
  writeFileSync(join(repository, "flaky", "config.pbtxt"), CONFIG.replace('"0.05"', '"0"'));
  server = await startServerProcess({ repositories: [repository] });
});

after(async () => {
  await server?.stop();
  rmSync(repository, { recursive: true, force: true });
});

function ask(changes: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify({ ...(JSON.parse(BODY) as object), ...changes });
  return fetch(`${server.baseUrl}${PATH}`, { method: "POST", body, ...(signal && { signal }) });
}

test("the example's request meets the fault that it asks for, and another one does not", async () => {
  const response = await ask({});
  assert.equal(response.status, 503);
  assert.deepEqual(await response.json(), { error: "no memory left" });
  assert.equal((await ask({ parameters: {} })).status, 200);
});

test("a hanging request leaves the other instances and its own free", async () => {
  const client = new AbortController();
  const hanging = Array.from({ length: 9 }, () => ask({ parameters: { fault_hang_rate: 1 } }, client.signal));
  assert.equal((await ask({ parameters: {} })).status, 200);
  client.abort();
  const ended = await Promise.allSettled(hanging);
  assert.ok(ended.every(({ status }) => status === "rejected"));
});

test("a crashed instance takes the readiness of its model, and comes back", async () => {
  const ready = async (): Promise<number> => (await fetch(`${server.baseUrl}/v2/models/flaky/ready`)).status;
  assert.equal(await ready(), 200);
  const crashed = await ask({ parameters: { fault_crash_rate: 1, fault_restart_ms: 50 } });
  assert.equal(crashed.status, 503);
  let status = await ready();
  for (const untilMs = performance.now() + 120_000; status !== 200 && performance.now() < untilMs; )
    status = await ready();
  assert.equal(status, 200);
  assert.match(server.log(), /model 'flaky' injects faults/);
});
