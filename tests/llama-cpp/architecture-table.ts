/**
 * Writes `architectures.md`: for each architecture of libllama whether our engine serves a small random model of it with
 * libllama, and how far tokens and logits are from the library's own, one sequence and one token at a time. Each runs in a
 * process of its own, since the library aborts on what it does not support.
 * node --conditions=nereid-source --import ./tools/loader/register.mjs tests/llama-cpp/architecture-table.ts [NAME...]
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { refusalOfOurs } from "../../server/src/engine/choose-engine.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import type { EngineSpec } from "../../server/src/engine/engine-spec.ts";
import { createLlamaRunner } from "../../server/src/engine/llama/create-runner.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { openLlama } from "../../server/src/native/llama/llama.ts";
import { fieldsOf } from "./architectures.ts";
import { ARCHITECTURE_NAMES, modelOf } from "./every-architecture.ts";
import { createMaker, type RecordedRun, recordRuns } from "./record.ts";

const TABLE = fileURLToPath(new URL("architectures.md", import.meta.url));
const TIMEOUT_MS = 3_000_000;

interface Row {
  readonly name: string;
  /** Undefined: it is served. */
  readonly refusal?: string;
  readonly hasExperts?: boolean;
  readonly servedByOurs?: boolean;
  readonly reusesPrefixes?: boolean;
  readonly numWrong?: number;
  readonly numTokens?: number;
  readonly largestDifference?: number;
}

/** In a process of its own. */
async function measure(name: string, hasExperts: boolean): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), "architecture-"));
  try {
    const path = join(folder, "model.gguf");
    const maker = createMaker(openLlama());
    const tiny = modelOf(name, hasExperts);
    const model = await maker.make(fieldsOf(tiny), path, tiny.optional);
    const runs = recordRuns(maker.llama, model, tiny, 0);
    return {
      name,
      hasExperts,
      servedByOurs: (await refusalOfOurs(path)) === undefined,
      ...(await compare(path, runs)),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** All runs twice and at the same time. */
async function compare(path: string, runs: readonly RecordedRun[]): Promise<Omit<Row, "name">> {
  const spec: EngineSpec = {
    modelDir: path,
    engine: { ...DEFAULT_ENGINE_CONFIG, maxSequences: 8, maxBatchTokens: 32 },
    kvCacheTokens: 1024,
    kvCache: { type: "f32", bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [] },
    numThreads: 2,
  };
  const runner = await createLlamaRunner(spec, { path, reason: "", blockSize: 16, tell: () => undefined });
  const engine = new LlmEngine(runner, spec.engine);
  let numWrong = 0;
  const numTokens = 2 * runs.reduce((sum, { output }) => sum + output.length, 0);
  let largestDifference = 0;
  const follow = async (run: RecordedRun): Promise<void> => {
    const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(run.prompt), maxTokens: run.output.length };
    const tokens: number[] = [];
    const logits: number[] = [];
    for await (const chunk of engine.generate({ ...request, generationLogits: true })) {
      tokens.push(...chunk.tokenIds);
      logits.push(...(chunk.extras?.generationLogits ?? []));
    }
    for (const [i, token] of run.output.entries()) {
      if (tokens[i] !== token) {
        numWrong += run.output.length - i;
        return; // all that follows has another beginning
      }
      for (const [id, logit] of run.top[i] ?? []) {
        const difference = Math.abs((logits[i * runner.vocabSize + id] ?? Number.NaN) - logit);
        largestDifference = Math.max(largestDifference, difference);
      }
    }
  };
  await Promise.all([...runs, ...runs].map(follow));
  engine.checkIntegrity();
  await engine.close();
  return { numWrong, numTokens, largestDifference, reusesPrefixes: runner.reusesPrefixes };
}

/** Each process goes on until one of its models ends it. */
function measureAll(names: readonly string[], onRow: (row: Row) => void): void {
  let left = names.flatMap((name) => [`${name} dense`, `${name} experts`]);
  while (left.length > 0) {
    const argv = [...process.execArgv, fileURLToPath(import.meta.url), "--measure", ...left];
    const child = spawnSync(process.execPath, argv, { encoding: "utf8", timeout: TIMEOUT_MS });
    const rows = child.stdout.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Row] : []));
    rows.forEach(onRow);
    if (child.status === 0) return;
    const [name = "", kind = ""] = (left[rows.length] ?? "").split(" ");
    const line = child.stderr.split("\n").find((each) => /GGML_ASSERT|GGML_ABORT|Error: /.test(each));
    onRow({ name, hasExperts: kind === "experts", refusal: reasonOf(line ?? String(child.signal ?? child.status)) });
    left = left.slice(rows.length + 1);
  }
}

function reasonOf(line: string): string {
  return line
    .replace(/^\w*Error: (\S*model\.gguf: )?/, "")
    .replace(/^.*?(cannot make it: |cannot load it: |llama\.cpp\/)/, "")
    .replace(/^llama_model_load: error loading model: /, "")
    .replace(/; llama_model_load_from_file_impl.*$/, "")
    .replaceAll("|", "/")
    .slice(0, 120);
}

function textOf(row: Row): string {
  const { name, refusal, hasExperts, servedByOurs, reusesPrefixes, numWrong, numTokens, largestDifference = 0 } = row;
  if (refusal !== undefined) return `| ${name} | | | | | ${refusal} |`;
  const engines = servedByOurs === true ? "nereid, llama.cpp" : "llama.cpp";
  const experts = hasExperts === true ? "experts" : "";
  const wrong = `${numWrong} of ${numTokens}`;
  return `| ${name} | ${engines} | ${wrong} | ${largestDifference.toExponential(0)} | ${reusesPrefixes === true ? "yes" : "no"} | ${experts} |`;
}

async function measureHere(jobs: readonly string[]): Promise<void> {
  let last: Row | undefined;
  for (const job of jobs) {
    const [name = "", kind = ""] = job.split(" ");
    const hasExperts = kind === "experts";
    const isServed = last?.name === name && last.refusal === undefined; // without experts: the other kind need not be tried
    last = isServed
      ? last
      : await measure(name, hasExperts).catch((error: unknown) => ({
          name,
          hasExperts,
          refusal: reasonOf(String(error)),
        }));
    process.stdout.write(`${JSON.stringify(last)}\n`);
  }
}

/** With experts where it cannot be without. */
function bestOf(rows: readonly Row[]): Row | undefined {
  return rows.find(({ refusal }) => refusal === undefined) ?? rows[0];
}

if (process.argv[2] === "--measure") await measureHere(process.argv.slice(3));
else if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = process.argv.slice(2);
  const names = given.length > 0 ? given : ARCHITECTURE_NAMES;
  const measured: Row[] = [];
  measureAll(names, (row) => {
    measured.push(row);
    process.stdout.write(`${textOf(row)}\n`);
  });
  const rows = names.flatMap((name) => bestOf(measured.filter((row) => row.name === name)) ?? []);
  const served = rows.filter(({ refusal }) => refusal === undefined);
  const text = [
    "# Architectures of GGUF files",
    "",
    `${served.length} of ${rows.length} architectures of llama.cpp 0.5.0 were served, as small random models, by \`architecture-table.ts\`.`,
    "Six requests at a time in a batch of 32 tokens are compared with libllama's own calls, one sequence and one token at a time.",
    "libllama gives `cogvlm` other logits for a prompt in one call than for one token at a time, without our engine as well.",
    "The refused ones lack keys or tensors in the generated files, or are no decoders of text.",
    "",
    "| architecture | engines | tokens that differ | largest difference of logits | prefix reuse | |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows.map(textOf),
    "",
  ];
  if (given.length === 0) writeFileSync(TABLE, text.join("\n"));
}
