/**
 * Client libraries as their users have them, unchanged, against one server: Anthropic's, Ollama's, instructor, LangChain,
 * LlamaIndex, LiteLLM, Pydantic AI and DSPy in Python; the Vercel AI SDK and LangChain in JavaScript. Skipped by name where they cannot be installed.
 */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { after, before, suite, test } from "node:test";
import { fileURLToPath } from "node:url";
import { npmPackages } from "../npm-packages.ts";
import { pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { reportChecks } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createAgentModels } from "./agent-models.ts";
import { runClientScript, runProgram } from "./run-client-script.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PYTHON: readonly (readonly [script: string, what: string])[] = [
  ["anthropic_client.py", "Anthropic's Python client"],
  ["ollama_client.py", "Ollama's Python client"],
  ["instructor_client.py", "instructor"],
  ["langchain_client.py", "LangChain in Python"],
  ["llama_index_client.py", "LlamaIndex"],
];
/** Their environment is their own, since they ask for another version of OpenAI's client. */
const PYTHON_FRAMEWORKS: readonly (readonly [script: string, what: string])[] = [
  ["litellm_client.py", "LiteLLM"],
  ["pydantic_ai_client.py", "Pydantic AI"],
  ["dspy_client.py", "DSPy"],
];
const JAVASCRIPT: readonly (readonly [script: string, what: string])[] = [
  ["ai-client.mjs", "the Vercel AI SDK"],
  ["langchain-client.mjs", "LangChain in JavaScript"],
];

const SKIPPED = { python: undefined, folder: undefined, reason: longTestsReason };
const venv =
  longTestsReason === undefined
    ? await pythonVenv(
        [
          "numpy",
          "anthropic==2.12.0",
          "ollama==0.6.3",
          "instructor==1.17.0",
          "langchain-openai==1.7.3",
          "llama-index-llms-openai-like==0.8.1",
          "llama-index-embeddings-openai-like==0.4.0",
        ],
        "clients",
      )
    : SKIPPED;
const frameworks =
  longTestsReason === undefined
    ? await pythonVenv(
        ["numpy", "litellm==1.110.2", "pydantic-ai-slim[openai,anthropic]==2.68.0", "dspy==3.4.1"],
        "frameworks",
      )
    : SKIPPED;
const packages =
  longTestsReason === undefined
    ? await npmPackages("clients", {
        "@ai-sdk/openai": "3.0.141",
        "@ai-sdk/openai-compatible": "2.0.92",
        "@langchain/core": "1.4.0",
        "@langchain/openai": "1.5.8",
        ai: "6.0.326",
        zod: "4.6.7",
      })
    : SKIPPED;
let models: ModelRepository;
let server: ServerProcess;

before(async () => {
  if (longTestsReason !== undefined) return;
  models = await createAgentModels();
  server = await startServerProcess({ repositories: [EXAMPLES, models.path] });
});

after(async () => {
  await server?.stop();
  await models?.[Symbol.asyncDispose]();
});

suite("clients", { concurrency: 2 }, () => {
  for (const [scripts, { python, reason }] of [
    [PYTHON, venv],
    [PYTHON_FRAMEWORKS, frameworks],
  ] as const) {
    for (const [script, what] of scripts) {
      test(what, { skip: reason ?? false, timeout: 600_000 }, async (t) => {
        const result = await runClientScript(python ?? "", script, server);
        await reportChecks(t, script, result, server);
      });
    }
  }
  for (const [script, what] of JAVASCRIPT) {
    test(what, { skip: packages.reason ?? false, timeout: 600_000 }, async (t) => {
      // Modules are looked up from where a script lies.
      const folder = join(packages.folder ?? "", "checks");
      await cp(join(HERE, "javascript"), folder, { recursive: true });
      const result = await runProgram(process.execPath, join(folder, script), server);
      await reportChecks(t, script, result, server);
    });
  }
});
