/**
 * Tries the `inflight_batcher_llm` repository of each release of TensorRT-LLM's backend on this server, by one command
 * and the requests of its README:
 *   node --conditions=nereid-source --import tsx tools/upstream-releases/main.ts CLONE [--tags=v0.5.0,v0.19.0] [--curl] [--python=FILE]
 * CLONE is a clone of triton-inference-server/tensorrtllm_backend, bare or not. Python has tritonclient, transformers,
 * torch, pandas and tabulate, which NVIDIA's client scripts import; `--curl` leaves the scripts out. The table of docs/recipes/migration.md is what this
 * prints. Run `npm run build` first.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { type ServerProcess, startServerProcess } from "../../tests/support/server-process.ts";
import { type CommandResult, checksOf, inOrder, outcomeOf, releaseRow, TABLE_HEAD } from "./checks.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
/** Only ends what hangs. */
const TIMEOUT_MS = 600_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const run = promisify(execFile);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tags: { type: "string" },
    curl: { type: "boolean", default: false },
    python: { type: "string", default: "python3" },
  },
});
const [clone] = positionals;
if (clone === undefined) throw new Error("name a clone of triton-inference-server/tensorrtllm_backend");
const root = await mkdtemp(join(tmpdir(), "nereid-releases-"));
try {
  process.stdout.write(TABLE_HEAD);
  for (const tag of values.tags?.split(",") ?? (await tagsWithModels(clone))) {
    process.stdout.write(releaseRow(tag, await tryRelease(clone, tag)));
  }
} finally {
  await rm(root, { recursive: true, force: true });
}

/** Releases that have the repository, in their order. From v0.20 on it is in another project. */
async function tagsWithModels(folder: string): Promise<readonly string[]> {
  const { stdout } = await run("git", ["-C", folder, "tag", "--list", "v*"]);
  const tags = stdout.split("\n").filter((tag) => tag !== "");
  const has = await Promise.all(
    tags.map((tag) =>
      run("git", ["-C", folder, "ls-tree", tag, "all_models/"]).then(({ stdout: list }) => list !== ""),
    ),
  );
  return inOrder(tags.filter((_, i) => has[i]));
}

async function tryRelease(folder: string, tag: string): Promise<ReadonlyMap<string, string>> {
  const source = join(root, tag);
  await run("sh", ["-c", 'mkdir "$2" && git -C "$0" archive "$1" | tar -x -C "$2"', folder, tag, source]);
  const repository = join(root, `${tag}-repository`);
  const from = join(source, "all_models/inflight_batcher_llm");
  const init = await command([
    process.execPath,
    NEREID,
    "init-repo",
    "-q",
    "--no_streaming",
    "--model",
    MODEL,
    "--from",
    from,
    "--repo",
    repository,
  ]);
  if (init.code !== 0) return new Map([["one command", outcomeOf(init)]]);
  const server = await startServerProcess({ repositories: [repository] });
  try {
    return await askAll(server, source, repository);
  } finally {
    await server.stop();
  }
}

async function askAll(server: ServerProcess, source: string, repository: string): Promise<ReadonlyMap<string, string>> {
  const outcomes = new Map([["one command", "yes"]]);
  const checks = checksOf({
    python: values.python,
    source,
    tokenizer: MODEL,
    http: `127.0.0.1:${server.http}`,
    grpc: `127.0.0.1:${server.grpc}`,
    hasBls: existsSync(join(repository, "tensorrt_llm_bls")),
  });
  for (const { name, file, variants } of checks) {
    if (file !== undefined && (values.curl || !existsSync(file))) continue;
    const script = file === undefined ? "" : await readFile(file, "utf8");
    for (const argv of variants(script)) outcomes.set(name, outcomeOf(await command(argv)));
  }
  return outcomes;
}

async function command([program = "", ...args]: readonly string[]): Promise<CommandResult> {
  try {
    const { stdout, stderr } = await run(program, args, { timeout: TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES });
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { readonly stdout?: string; readonly stderr?: string };
    return { code: 1, output: `${stdout}${stderr}${error instanceof Error ? error.message : ""}` };
  }
}
