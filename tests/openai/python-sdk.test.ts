/** OpenAI's Python client, unchanged. Skipped by name where it cannot be installed. */
import { test } from "node:test";
import { pythonVenv } from "../python-venv.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const venv = await pythonVenv(["openai==3.54.0"]);
const skip = venv.reason ?? clientVenv.reason ?? false;

test("OpenAI's Python client", { skip, timeout: 600_000 }, async (t) => {
  await using scripted = await createScriptedModels();
  const server = await startServerProcess({ repositories: [EXAMPLES, scripted.path] });
  try {
    await runChecks(t, "openai_sdk.py", server);
    await server.stop();
  } finally {
    await server.kill();
  }
});
