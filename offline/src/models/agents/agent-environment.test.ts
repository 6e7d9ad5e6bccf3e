import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { AGENT_NAMES, type AgentTarget, agentLaunch, isAgent, shellText } from "./agent-environment.ts";

const TARGET: AgentTarget = { url: "http://localhost:8000", model: "org/it's", apiKey: "none", contextLength: 2048 };

test("agentLaunch() points every model of Claude Code at the server", () => {
  const { env, unset } = agentLaunch("claude", TARGET) ?? assert.fail();
  assert.deepEqual([env.ANTHROPIC_BASE_URL, unset], ["http://localhost:8000", ["ANTHROPIC_API_KEY"]]);
  const models = Object.entries(env).filter(([name]) => name.endsWith("_MODEL"));
  assert.deepEqual(new Set(models.map(([, model]) => model)), new Set(["org/it's"]));
  assert.equal(models.length, 5);
});

test("agentLaunch() gives Codex a provider that speaks the Responses API", () => {
  const { args, env } = agentLaunch("codex", TARGET) ?? assert.fail();
  assert.deepEqual(args, [
    "-c",
    'model_provider="nereid"',
    "-c",
    'model_providers.nereid={ name = "Nereid", base_url = "http://localhost:8000/v1", wire_api = "responses", env_key = "NEREID_API_KEY" }',
    "-c",
    "model_context_window=2048",
    "-m",
    "org/it's",
  ]);
  assert.deepEqual(env, { NEREID_API_KEY: "none" });
});

test("agentLaunch() gives OpenCode a configuration with the model and its limits", () => {
  const { env } = agentLaunch("opencode", TARGET) ?? assert.fail();
  const config: unknown = JSON.parse(env.OPENCODE_CONFIG_CONTENT ?? "");
  const provider = Reflect.get(Object(config), "provider");
  assert.deepEqual(Reflect.get(Object(config), "model"), "nereid/org/it's");
  assert.deepEqual(Reflect.get(Object(provider), "nereid"), {
    npm: "@ai-sdk/openai-compatible",
    name: "Nereid",
    options: { baseURL: "http://localhost:8000/v1", apiKey: "none" },
    models: { "org/it's": { name: "org/it's", limit: { context: 2048, output: 512 } } },
  });
});

test("agentLaunch() gives Continue a file, and knows no other agents", () => {
  const { file } = agentLaunch("continue", TARGET) ?? assert.fail();
  assert.match(
    file?.text ?? "",
    /provider: openai\n {4}model: "org\/it's"\n {4}apiBase: "http:\/\/localhost:8000\/v1"/,
  );
  assert.equal(agentLaunch("copilot", TARGET), undefined);
  assert.deepEqual([...AGENT_NAMES, "claude-code", "cn", "--model_repo"].map(isAgent), [...Array(7).fill(true), false]);
});

test("shellText() survives a shell, whatever the model's name", () => {
  const text = shellText(agentLaunch("aider", TARGET) ?? assert.fail()).replace(/^aider /m, "printf '%s\\n' ");
  const shown = execFileSync("sh", ["-c", `${text}echo "$OPENAI_API_BASE"`], { encoding: "utf8" });
  assert.deepEqual(shown.trimEnd().split("\n"), [
    "--model",
    "openai/org/it's",
    "--no-show-model-warnings",
    "http://localhost:8000/v1",
  ]);
});
