/**
 * Open-source agents, unchanged, repair a program over several turns, with a model that follows a script: OpenAI's Agents SDK
 * (by chats and by responses, with a handover), smolagents and CrewAI. Skipped by name where they cannot be installed.
 */
import { after, before, test } from "node:test";
import { pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { reportChecks } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createCoderModel } from "./coder-model.ts";
import { runClientScript } from "./run-client-script.ts";

const SKIPPED = { python: undefined, reason: longTestsReason };
const open = (packages: readonly string[], name: string) =>
  longTestsReason === undefined ? pythonVenv(["numpy", ...packages], name) : Promise.resolve(SKIPPED);
const agents = await open(["openai-agents==0.24.0", "smolagents==1.26.0"], "agents");
const crew = await open(["crewai==1.15.30"], "crew");
const SCRIPTS = [
  ["openai_agents.py", "OpenAI's Agents SDK", agents],
  ["smol_agents.py", "smolagents", agents],
  ["crew_ai.py", "CrewAI", crew],
] as const;
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

for (const [script, what, { python, reason }] of SCRIPTS) {
  test(what, { skip: reason ?? false, timeout: 600_000 }, async (t) => {
    await reportChecks(t, script, await runClientScript(python ?? "", script, server), server);
  });
}
