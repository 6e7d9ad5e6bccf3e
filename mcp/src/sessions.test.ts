import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { McpEndpoint } from "@nereid/server/protocol/mcp/mcp-endpoint";
import { createMcpEndpoint } from "./mcp-module.ts";

const HOST = { list: async () => ({ tools: [] }), call: async () => undefined };
const ACCEPT = { accept: "application/json, text/event-stream", "content-type": "application/json" };

function endpointOf(t: TestContext, maxSessions: number, sessionIdleMs: number): McpEndpoint {
  const endpoint = createMcpEndpoint({
    serverName: "test",
    serverVersion: "1",
    maxSessions,
    sessionIdleMs,
    onError: () => undefined,
  });
  t.after(() => endpoint.close());
  return endpoint;
}

function ask(endpoint: McpEndpoint, message: object, owner: string, session?: string): Promise<Response> {
  const body = { jsonrpc: "2.0", id: 1, ...message };
  const headers = { ...ACCEPT, ...(session === undefined ? {} : { "mcp-session-id": session }) };
  const request = new Request("http://localhost/mcp", { method: "POST", headers });
  return endpoint.answer({ request, body, host: HOST, owner });
}

async function open(endpoint: McpEndpoint, owner = ""): Promise<string> {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  const response = await ask(endpoint, { method: "initialize", params }, owner);
  await response.text();
  return response.headers.get("mcp-session-id") ?? "";
}

async function status(endpoint: McpEndpoint, session: string, owner = ""): Promise<number> {
  const response = await ask(endpoint, { method: "tools/list" }, owner, session);
  await response.text();
  return response.status;
}

test("a new session ends the one that was idle longest when there are too many", async (t) => {
  const endpoint = endpointOf(t, 2, 60_000);
  const [first, second] = [await open(endpoint), await open(endpoint)];
  assert.equal(await status(endpoint, first), 200);
  const third = await open(endpoint);
  const found = [await status(endpoint, first), await status(endpoint, second), await status(endpoint, third)];
  assert.deepEqual(found, [200, 404, 200]);
});

test("a session is known to its owner alone", async (t) => {
  const endpoint = endpointOf(t, 2, 60_000);
  const session = await open(endpoint, "one");
  assert.deepEqual([await status(endpoint, session, "two"), await status(endpoint, session, "one")], [404, 200]);
});

test("a session that is idle for too long ends", async (t) => {
  const endpoint = endpointOf(t, 2, 1);
  const session = await open(endpoint);
  await sleep(50);
  assert.equal(await status(endpoint, session), 404);
});
