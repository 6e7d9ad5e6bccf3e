/**
 * Open-source agents, unchanged, repair a program over several turns, with a model that follows a script: OpenAI's Agents SDK
 * (by chats and by responses, with a handover) and smolagents. Skipped by name where they cannot be installed.
 */
import { after, before, test } from "node:test";
import { pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { reportChecks } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createCoderModel } from "./coder-model.ts";
import { runClientScript } from "./run-client-script.ts";

const SCRIPTS: readonly (readonly [script: string, what: string])[] = [
  ["openai_agents.py", "OpenAI's Agents SDK"],
  ["smol_agents.py", "smolagents"],
];
const venv =
  longTestsReason === undefined
    ? await pythonVenv(["numpy", "openai-agents==0.24.0", "smolagents==1.26.0"], "agents")
    : { python: undefined, reason: longTestsReason };
let models: ModelRepository;
let server: ServerProcess;

before(async () => {
  if (longTestsReason !== undefined) return;
  models = await createCoderModel();
  server = await startServerProcess({ repositories: [models.path] });
});

after(async () => {
  await server?.stop();
  await models?.[Symbol.asyncDispose]();
});

for (const [script, what] of SCRIPTS) {
  test(what, { skip: venv.reason ?? false, timeout: 600_000 }, async (t) => {
    await reportChecks(t, script, await runClientScript(venv.python ?? "", script, server), server);
  });
}
