/** `/mcp` at every listener: restricted by headers, and absent without its flag. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createMcpEndpoint } from "@nereid/mcp/mcp-module";
import { parseServerFlags } from "@nereid/server/config/flags/parse-server-flags";
import { type FrontendExtras, frontendsOf } from "@nereid/server/main/frontends";
import { MetricRegistry } from "@nereid/server/observe/metrics";
import { FakeModelServer } from "@nereid/server/protocol/grpc/fake-model-server.test-support";
import { TestLog } from "@nereid/server/protocol/grpc/test-peer.test-support";
import { freePort } from "../support/server-process.ts";

const MESSAGE = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
const HEADERS = { accept: "application/json, text/event-stream", "content-type": "application/json" };
const MCP: FrontendExtras = { mcp: { createMcpEndpoint } };

/** The base addresses of both ports. */
async function withServer(
  flags: readonly string[],
  extras: FrontendExtras,
  run: (urls: readonly string[]) => Promise<void>,
): Promise<void> {
  const repository = mkdtempSync(join(tmpdir(), "mcp-access-"));
  const openAiPort = await freePort();
  const places = ["--http-address=127.0.0.1", "--http-port=0", `--openai-port=${openAiPort}`];
  const off = ["--allow-grpc=false", "--allow-metrics=false"];
  const parsed = parseServerFlags([`--model-repository=${repository}`, ...places, ...off, ...flags], {});
  assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  const { options } = parsed as Extract<typeof parsed, { kind: "options" }>;
  const front = frontendsOf(options, new FakeModelServer(), new MetricRegistry(), new TestLog(), extras);
  await front.listen();
  try {
    await run([front.endpoints.get("http")?.port, openAiPort].map((port) => `http://127.0.0.1:${port}/mcp`));
  } finally {
    await front.closeInference(100);
    rmSync(repository, { recursive: true });
  }
}

async function ask(url: string, method: string, headers: Record<string, string>) {
  const body = method === "POST" ? { body: MESSAGE } : {};
  const response = await fetch(url, { method, headers: { ...HEADERS, ...headers }, ...body });
  return { status: response.status, text: await response.text() };
}

test("each method of /mcp needs the headers of inference and of metadata", async () => {
  const locks = ["inference", "metadata"].map((api) => `--http-restricted-api=${api}:x-${api}=open`);
  await withServer(locks, MCP, async (urls) => {
    for (const url of urls) {
      for (const method of ["POST", "GET", "DELETE"]) {
        for (const headers of [{}, { "x-inference": "open" }, { "x-metadata": "open" }]) {
          const { status, text } = await ask(url, method, headers);
          assert.equal(status, 403, `${method} ${JSON.stringify(headers)}`);
          assert.match(text, /This API is restricted, expecting header 'x-(inference|metadata)'/);
        }
        const { status } = await ask(url, method, { "x-inference": "open", "x-metadata": "open" });
        assert.equal(status, method === "POST" ? 200 : 405, `${method} at ${url}`);
      }
    }
  });
});

test("Triton's own kind of restriction holds too", async () => {
  await withServer(["--openai-restricted-api", "inference", "x-secret", "open"], MCP, async ([url = ""]) => {
    assert.equal((await ask(url, "POST", {})).status, 401);
    assert.equal((await ask(url, "POST", { "x-secret": "open" })).status, 200);
  });
});

test("/mcp is there without OpenAI's API, and not without its own flag", async () => {
  await withServer(["--allow-openai=false"], MCP, async ([url = ""]) => {
    assert.equal((await ask(url, "POST", {})).status, 200);
    assert.equal((await fetch(url.replace("/mcp", "/v1/models"))).status, 404);
  });
  await withServer([], {}, async (urls) => {
    for (const url of urls) assert.equal((await ask(url, "POST", {})).status, 404, url);
  });
});
