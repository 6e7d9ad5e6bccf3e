/** Ports, flags and restricted access of OpenAI's API. */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { freePort, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels, ONLY_ECHO } from "./scripted-models.ts";

const ASK = { model: "echo", messages: [{ role: "user" as const, content: "say: yes" }] };

async function withServer(flags: readonly string[], run: (server: ServerProcess) => Promise<void>): Promise<void> {
  await using scripted = await createScriptedModels();
  const server = await startServerProcess({ repositories: [scripted.path], flags: [...ONLY_ECHO, ...flags] });
  try {
    await run(server);
    await server.stop();
  } finally {
    await server.kill();
  }
}

function clientOf(baseUrl: string, headers: Record<string, string> = {}): OpenAI {
  return new OpenAI({ apiKey: "none", baseURL: `${baseUrl}/v1`, maxRetries: 0, defaultHeaders: headers });
}

test("--allow-openai=false leaves no route of it", { timeout: 600_000 }, async () => {
  await withServer(["--allow-openai=false"], async ({ baseUrl }) => {
    for (const path of ["/v1/models", "/tokenize", "/v1/chat/completions"]) {
      const { status } = await fetch(baseUrl + path);
      assert.equal(status, 404, path);
    }
  });
});

test("--openai-port serves the same API and nothing else", { timeout: 600_000 }, async () => {
  const port = await freePort();
  await withServer([`--openai-port=${port}`], async ({ baseUrl }) => {
    for (const url of [baseUrl, `http://127.0.0.1:${port}`]) {
      const answer = await clientOf(url).chat.completions.create(ASK);
      assert.equal(answer.choices[0]?.message.content, "yes");
    }
    const { status } = await fetch(`http://127.0.0.1:${port}/v2/health/live`);
    assert.equal(status, 404);
  });
});

test("--one-port serves it beside gRPC", { timeout: 600_000 }, async () => {
  await withServer(["--one-port=true"], async ({ baseUrl }) => {
    const answer = await clientOf(baseUrl).chat.completions.create(ASK);
    assert.equal(answer.choices[0]?.message.content, "yes");
  });
});

test("a restricted API asks for its header", { timeout: 600_000 }, async () => {
  const flags = ["--http-restricted-api=inference:secret=letmein"];
  await withServer(flags, async ({ baseUrl }) => {
    const locked = clientOf(baseUrl);
    await assert.rejects(locked.chat.completions.create(ASK), (error: unknown) => {
      assert.ok(error instanceof OpenAI.APIError);
      assert.deepEqual([error.status, error.type], [403, "permission_error"]);
      return true;
    });
    for await (const { id } of locked.models.list()) assert.equal(typeof id, "string");
    const open = clientOf(baseUrl, { secret: "letmein" });
    const answer = await open.chat.completions.create(ASK);
    assert.equal(answer.choices[0]?.message.content, "yes");
  });
});
