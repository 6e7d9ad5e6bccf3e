/** The real Codex CLI runs a tool and reads its result, against a model that follows a script. Skipped by name where it is not on the path. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";
import { startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const run = promisify(execFile);
const program = (process.env.PATH ?? "")
  .split(delimiter)
  .map((folder) => join(folder, "codex"))
  .find((path) => existsSync(path));
const skip = program === undefined ? "codex is not on the path: npm install --global @openai/codex" : false;

test("codex exec writes a file through a call, and ends with the model's answer", {
  skip,
  timeout: 600_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "codex-"));
  await using scripted = await createScriptedModels();
  const server = await startServerProcess({ repositories: [scripted.path] });
  try {
    const provider = `{ name = "n", base_url = "${server.baseUrl}/v1", wire_api = "responses" }`;
    const settings = ['model="caller"', 'model_provider="n"', `model_providers.n=${provider}`];
    const args = settings.flatMap((setting) => ["-c", setting]);
    // The model repeats the words behind the last "say:", first those of the prompt, then those of the result.
    const call = { name: "exec_command", arguments: { cmd: "printf made > made.txt; echo say: it is made" } };
    const prompt = `say:<tool_call>${JSON.stringify(call)}</tool_call>`;
    const flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
    const env = { ...process.env, CODEX_HOME: folder, HOME: folder };
    const exec = run(program ?? "", ["exec", ...flags, ...args, prompt], { cwd: folder, env });
    exec.child.stdin?.end();
    const { stdout } = await exec;
    assert.equal(readFileSync(join(folder, "made.txt"), "utf8"), "made");
    assert.equal(stdout.trim(), "it is made");
    await server.stop();
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true });
  }
});
