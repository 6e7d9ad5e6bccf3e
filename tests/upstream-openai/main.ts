/**
 * Runs the tests of NVIDIA's OpenAI front end (triton-inference-server/server, python/openai/tests), unchanged, against this
 * server, and writes a table of their results:
 *   node --conditions=nereid-source --import tsx tests/upstream-openai/main.ts CHECKOUT [--minilm=DIR] [--out=FILE] [-- PYTEST ARGUMENTS]
 * CHECKOUT is a clone of that repository. DIR is the Hugging Face folder of all-MiniLM-L6-v2, for the tests of embeddings. `shim/` takes the place of the modules with which they start their server; the
 * port 9000 has to be free.
 */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pythonVenv } from "../python-venv.ts";
import { SERVER_BIN } from "../support/server-process.ts";
import {
  VLLM_MODEL,
  writeEmbeddingRepository,
  writeTensorRtRepository,
  writeToolRepository,
  writeVllmRepository,
} from "./models.ts";
import { type CaseResult, readResults, resultTable } from "./results.ts";

const SHIM = fileURLToPath(new URL("shim", import.meta.url));
/** The versions that their requirements name. */
const REQUIREMENTS = [
  "openai==1.107.3",
  "httpx==0.27.2",
  "pytest==8.1.1",
  "pytest-asyncio==0.23.8",
  "requests",
  "numpy",
  "huggingface_hub",
];
const TOOL_TESTS = "test_tool_calling.py";
/** They start a server for most of their classes: a busy machine takes an hour. */
const RUN_TIMEOUT_MS = 5_400_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: ".cache/upstream-openai.md" }, minilm: { type: "string" } },
});
const [checkout, ...pytestArguments] = positionals;
if (checkout === undefined) throw new Error("name a checkout of triton-inference-server/server");
const venv = await pythonVenv(REQUIREMENTS, "upstream-openai");
if (venv.python === undefined) throw new Error(venv.reason);
const results = await runTests(checkout, venv.python);
await writeFile(values.out, resultTable(results));
const passed = results.filter(({ outcome }) => outcome === "passed").length;
process.stdout.write(`${passed} of ${results.length} passed; see ${values.out}\n`);

/** A folder with their tests, the shim beside them, and the models. */
async function runTests(source: string, python: string): Promise<readonly CaseResult[]> {
  const folder = await mkdtemp(join(tmpdir(), "nereid-upstream-"));
  try {
    await cp(join(source, "python", "openai", "tests"), join(folder, "tests"), { recursive: true });
    await cp(join(SHIM, "openai_frontend"), join(folder, "openai_frontend"), { recursive: true });
    await writeTensorRtRepository(join(folder, "tests", "tensorrtllm_models"));
    if (values.minilm !== undefined) {
      await writeEmbeddingRepository(join(folder, "tests", "vllm_embedding_models"), resolve(values.minilm));
    }
    await writeVllmRepository(join(folder, "language"));
    await writeToolRepository(join(folder, "tools"));
    const most = await pytest(python, folder, "language", ["tests", `--ignore=tests/${TOOL_TESTS}`]);
    const tools = await pytest(python, folder, "tools", [`tests/${TOOL_TESTS}`]);
    return [...most, ...tools];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function pytest(
  python: string,
  folder: string,
  repository: string,
  chosen: readonly string[],
): Promise<readonly CaseResult[]> {
  const report = join(folder, `${repository}.xml`);
  const options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", `--junitxml=${report}`];
  const env = {
    ...process.env,
    // They start their server by the command `python3`.
    PATH: `${join(python, "..")}:${process.env.PATH}`,
    PYTHONPATH: SHIM,
    PYTHONDONTWRITEBYTECODE: "1",
    NEREID_SHIM: SHIM,
    NEREID_SERVER: `${process.execPath} ${SERVER_BIN}`,
    TEST_BACKEND: "vllm",
    TEST_MODEL: VLLM_MODEL,
    TEST_MODEL_REPOSITORY: join(folder, repository),
    TEST_TOKENIZER: "none",
  };
  const settings = { cwd: folder, env, timeout: RUN_TIMEOUT_MS, maxBuffer: 256 * 1024 * 1024 };
  const output = await new Promise<string>((resolve) => {
    // A test that fails is a result, not a fault.
    execFile(python, [...options, ...chosen, ...pytestArguments], settings, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    );
  });
  await writeFile(`.cache/upstream-openai-${repository}.log`, output);
  const log = `.cache/upstream-openai-${repository}.log`;
  const minutes = RUN_TIMEOUT_MS / 60_000;
  const xml = await readFile(report, "utf8").catch((cause: unknown) => {
    throw new Error(`pytest wrote no report within ${minutes} minutes: see ${log}`, { cause });
  });
  return readResults(xml);
}
