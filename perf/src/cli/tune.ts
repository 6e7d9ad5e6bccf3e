/** `nereid tune`: searches the configuration of models that serves a load best. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { printTextMessage } from "@nereid/server/config/pbtxt/print-text";
import type { Reporter } from "@nereid/server/files/progress";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { htmlPage } from "../report/html-page.ts";
import { tuneCsv, tuneJson, tunePage, tuneText } from "../report/tune-report.ts";
import type { InferOptions } from "../run/infer-run.ts";
import { parseHeaders, parseTarget } from "../target/target.ts";
import { PointMeter } from "../tune/measure-point.ts";
import { onCpu, traitsOf } from "../tune/model-variant.ts";
import { runTune, type TuneResult } from "../tune/run-tune.ts";
import { type ModelPlan, searchSpaceOf } from "../tune/tune-plan.ts";
import { runningServer, startServer, type TunedServer } from "../tune/tuned-server.ts";
import { parseShape } from "./infer-options.ts";
import { NO_TLS_FILES } from "./no-tls-files.ts";
import { LOAD_FLAGS, OUTPUT_FLAGS, SEARCH_FLAGS, TUNE_FLAGS } from "./tune-flags.ts";
import { type TuneFlags, type TuneOptions, tuneOptions } from "./tune-options.ts";

const FLAGS = { ...TUNE_FLAGS, ...SEARCH_FLAGS, ...LOAD_FLAGS, ...OUTPUT_FLAGS } as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "tune",
  description:
    "Searches instances, batch sizes, queue delays and parameters of a model for the best throughput within a latency. Writes config.pbtxt and a report; changes no file of the repository.",
  flags: FLAGS,
  examples: ["nereid tune -m models -n simple --latency-budget 20", "nereid tune -f analyzer.yaml"],
};

export async function tuneCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, given, reporter, signal }) => {
    const options = await tuneOptions(values, given);
    const { flags, models, ignored } = options;
    if (ignored.length > 0) reporter.warn(`keys without an effect here: ${ignored.join(", ")}`);
    if (flags.streaming && flags["client-protocol"] !== "grpc") throw new UsageError("--streaming needs -i grpc");
    refuseOldOutput(models, flags);
    await using server = await openServer(options, signal);
    const results: TuneResult[] = [];
    for (const model of models) results.push(await tuneModel(model, options, server, reporter, signal));
    const facts = { command: `nereid tune ${argv.join(" ")}`, server: server.httpUrl, date: new Date().toISOString() };
    const paths = results.map((result) => writeConfig(result, flags));
    writeReports(results, facts, options);
    if (results.some(({ best }) => best === undefined)) process.exitCode = 1;
    const texts = results.map((result, k) => tuneText(result, paths[k]));
    reporter.result(texts.join("\n"), { ...facts, results: results.map(tuneJson) });
  });
}

async function openServer({ flags, serverFlags }: TuneOptions, signal: AbortSignal): Promise<TunedServer> {
  const { "model-repository": repository, "triton-launch-mode": mode } = flags;
  const url = mode === "remote" ? (flags.url ?? "localhost:8000") : flags.url;
  const isOwn = url === undefined || (mode !== undefined && mode !== "remote");
  if (!isOwn) {
    const target = parseTarget(url, NO_TLS_FILES);
    const grpcUrl = flags["grpc-url"] ?? `${target.address.host}:8001`;
    return runningServer({
      base: target.base,
      httpUrl: url,
      grpcUrl,
      headers: Object.fromEntries(parseHeaders(flags.header)),
    });
  }
  if (flags.apply) throw new UsageError("--apply needs --url: a server that is started for this ends with it");
  if (repository === undefined) throw new UsageError("give --model-repository, or --url of a server that runs");
  if (!existsSync(repository) && !repository.includes("://")) throw new ToolError(`${repository} does not exist`);
  return startServer(repository, serverFlags, signal);
}

async function tuneModel(
  model: ModelPlan,
  { flags, search }: TuneOptions,
  server: TunedServer,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<TuneResult> {
  const isRunning = flags.url !== undefined || flags["triton-launch-mode"] === "remote";
  if (!isRunning) await server.load(model.name, undefined);
  const found = await server.writtenConfig(model.name);
  const base = model.cpuOnly ? onCpu(found) : found;
  const space = searchSpaceOf(model, search, traitsOf(base));
  const url = flags["client-protocol"] === "grpc" ? server.grpcUrl : server.httpUrl;
  const options = inferOptions(model, flags);
  let best: TuneResult["bestConfig"];
  try {
    await using meter = new PointMeter(parseTarget(url, NO_TLS_FILES), options, Math.max(...space.loads));
    await meter.open();
    const job = { base, space, goal: model.goal, batchSize: model.batchSize };
    const measured = { model: model.name, mode: search.mode, fullMs: flags["measurement-interval"] };
    const result = await runTune({ ...job, ...measured }, server, meter, reporter, signal);
    best = result.bestConfig;
    return result;
  } finally {
    if (isRunning) await server.load(model.name, flags.apply ? (best ?? found) : found);
  }
}

function inferOptions({ name, batchSize, shapes, inputData }: ModelPlan, flags: TuneFlags): InferOptions {
  const { "max-threads": maxThreads, seed, "string-length": stringLength, "measurement-interval": windowMs } = flags;
  return {
    model: name,
    version: "",
    protocol: flags["client-protocol"],
    isStreaming: flags.streaming,
    headers: parseHeaders(flags.header),
    inputs: {
      sources: [...inputData],
      batchSize,
      shapes: new Map(shapes.map(parseShape)),
      stringLength,
      stringData: undefined,
      seed,
    },
    parameters: {},
    isBinaryInput: true,
    isBinaryOutput: true,
    usesSharedMemory: false,
    outputMemoryBytes: 0,
    sequences: { length: 20, variationPercent: 20, firstId: 1, endId: undefined, seed },
    maxThreads,
    measure: { windowMs, windowRequests: 0, maxTrials: 1, stabilityPercentage: 10, percentile: undefined },
  };
}

function configPathOf(model: string, flags: TuneFlags): string {
  return join(flags["output-model-repository-path"], model, "config.pbtxt");
}

/** Before anything is measured, not after. */
function refuseOldOutput(models: readonly ModelPlan[], flags: TuneFlags): void {
  if (flags["override-output-model-repository"]) return;
  const old = models.map(({ name }) => configPathOf(name, flags)).find((path) => existsSync(path));
  if (old !== undefined) {
    const fix = "Add --override-output-model-repository, or name another --output-model-repository-path";
    throw new ToolError(`${old} is there already`, { fix });
  }
}

function writeConfig({ model, bestConfig }: TuneResult, flags: TuneFlags): string | undefined {
  if (bestConfig === undefined) return undefined;
  const path = configPathOf(model, flags);
  write(path, join(path, ".."), printTextMessage(bestConfig, "ModelConfig"));
  return path;
}

function writeReports(
  results: readonly TuneResult[],
  facts: Parameters<typeof tunePage>[1],
  { flags, models }: TuneOptions,
): void {
  const folder = flags["export-path"];
  const warnings = results.flatMap(({ refused }) =>
    refused.map(({ name, reason }) => `${name} did not load: ${reason}`),
  );
  const json = { ...facts, results: results.map(tuneJson) };
  write(join(folder, "tune.html"), folder, htmlPage(tunePage(results, facts, warnings)));
  write(join(folder, "tune.json"), folder, `${JSON.stringify(json, undefined, 2)}\n`);
  write(join(folder, "tune.csv"), folder, tuneCsv(results, models[0]?.batchSize ?? 1));
}

function write(path: string, folder: string, text: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, text);
  } catch (error) {
    throw fileError("write", path, error);
  }
}
