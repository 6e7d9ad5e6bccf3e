/** `nereid bench`: load tests of V2 inference and of language models. */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { type CommandSyntax, type FlagTable, type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import type { Reporter } from "@nereid/server/files/progress";
import { fileError } from "@nereid/server/files/tool-error";
import type { TextEndpoint } from "../input/text-request.ts";
import type { MeasuredLoad } from "../plan/load-search.ts";
import { generatorWarnings } from "../report/generator-warnings.ts";
import { htmlPage } from "../report/html-page.ts";
import { inferPage, levelJson, type RunFacts } from "../report/infer-report.ts";
import { inferCsv, levelText, loadName, summaryText } from "../report/infer-text.ts";
import { textCsv, textJson, textPage, textTable } from "../report/text-report.ts";
import { type AgainstResult, againstText, measureAgainst } from "../run/against.ts";
import { InferTarget } from "../run/infer-run.ts";
import type { LevelResult } from "../run/measure-level.ts";
import { textRatios, textRatiosText } from "../run/text-against.ts";
import type { TextResult } from "../run/text-run.ts";
import { parseTarget } from "../target/target.ts";
import { INPUT_FLAGS, LOAD_FLAGS, REPORT_FLAGS, TARGET_FLAGS, TEXT_FLAGS } from "./bench-flags.ts";
import { inferOptions, searchOf } from "./infer-options.ts";
import { endpointOf, runTextBench, textBench } from "./text-bench.ts";

const FLAGS = {
  ...TARGET_FLAGS,
  ...LOAD_FLAGS,
  ...INPUT_FLAGS,
  ...TEXT_FLAGS,
  ...REPORT_FLAGS,
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "bench",
  description:
    "Measures a server under load: V2 inference with the flags and columns of perf_analyzer, language models with the figures of GenAI-Perf and AIPerf.",
  flags: FLAGS,
  examples: ["nereid bench -m simple --concurrency-range 1:16:5 --html report.html"],
};

interface Run {
  readonly flags: FlagValues<typeof FLAGS>;
  readonly url: string;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
  readonly facts: RunFacts;
}

export async function benchCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const isGrpc = values.protocol.toLowerCase() === "grpc";
    const url = values.url ?? (isGrpc ? "localhost:8001" : "localhost:8000");
    const command = `nereid bench ${argv.join(" ")}`;
    const facts = { command, url, model: values.model, date: new Date().toISOString() };
    const run = { flags: values, url, reporter, signal, facts };
    const endpoint = endpointOf(values);
    if (endpoint !== undefined) await textModelBench(run, endpoint);
    else await (values.against === undefined ? inferBench(run) : againstBench(run, values.against));
  });
}

async function inferBench({ flags, url, reporter, signal, facts }: Run): Promise<void> {
  const search = searchOf(flags);
  await using target = await InferTarget.open(parseTarget(url, flags), inferOptions(flags), search.maxClients);
  const results: LevelResult[] = [];
  const warnings: string[] = [];
  const measured: MeasuredLoad[] = [];
  for (let level = search.next(measured); level !== undefined; level = search.next(measured)) {
    const result = await target.measure(level, reporter, signal);
    results.push(result);
    measured.push({ load: result.load, isGood: search.isGood(result) });
    reporter.info(levelText(result, flags.percentile));
    const own = generatorWarnings(result.limits, `${loadName(result)} ${result.load}`);
    for (const warning of own) reporter.warn(warning);
    warnings.push(...own);
  }
  const json = { ...facts, results: results.map(levelJson), warnings };
  writeReport(flags.csv, () => inferCsv(results));
  writeReport(flags["report-json"], () => `${JSON.stringify(json, undefined, 2)}\n`);
  writeReport(flags.html, () => htmlPage(inferPage(results, facts, warnings)));
  if (results.some(({ isStable }) => !isStable)) process.exitCode = 1;
  reporter.result(summaryText(results, flags.percentile), json);
}

async function againstBench({ flags, url, reporter, signal, facts }: Run, second: string): Promise<void> {
  const search = searchOf(flags);
  const options = inferOptions(flags);
  if (flags["latency-threshold"] > 0)
    throw new UsageError("--against measures given loads, without --latency-threshold");
  await using one = await InferTarget.open(parseTarget(url, flags), options, search.maxClients);
  await using other = await InferTarget.open(parseTarget(second, flags), options, search.maxClients);
  const results: AgainstResult[] = [];
  const turns = { rounds: flags.rounds, windowMs: options.measure.windowMs };
  const measured: MeasuredLoad[] = [];
  for (;;) {
    const level = search.next(measured);
    if (level === undefined) break;
    results.push(await measureAgainst([one, other], level, turns, reporter, signal));
    measured.push({ load: level.value, isGood: true });
  }
  const json = { ...facts, against: second, results };
  writeReport(flags["report-json"], () => `${JSON.stringify(json, undefined, 2)}\n`);
  reporter.result(results.map((result) => againstText(result, "Load")).join("\n"), json);
}

async function textModelBench(run: Run, endpoint: TextEndpoint): Promise<void> {
  const { flags, url, reporter, signal, facts } = run;
  if (flags.against !== undefined) {
    await textAgainst(run, endpoint, flags.against);
    return;
  }
  const bench = await textBench(flags, endpoint, url);
  const results: TextResult[] = [];
  const warnings: string[] = [];
  const note = (result: TextResult): void => {
    results.push(result);
    const own = generatorWarnings(result.limits, `${result.kind} ${result.load}`);
    const { numFailed } = result.metrics;
    if (numFailed > 0) own.push(`${result.kind} ${result.load}: ${numFailed} requests failed: ${result.failure}`);
    for (const warning of own) reporter.warn(warning);
    warnings.push(...own);
  };
  await runTextBench(bench, note, reporter, signal);
  const json = { ...facts, results: results.map(textJson), warnings };
  writeReport(flags.csv, () => textCsv(results));
  writeReport(flags["report-json"], () => `${JSON.stringify(json, undefined, 2)}\n`);
  writeReport(flags.html, () => htmlPage(textPage(results, facts, warnings)));
  reporter.result(results.map(textTable).join("\n\n"), json);
}

/** The first level of both servers, in turns. */
async function textAgainst(
  { flags, url, reporter, signal, facts }: Run,
  endpoint: TextEndpoint,
  second: string,
): Promise<void> {
  const benches = [await textBench(flags, endpoint, url), await textBench(flags, endpoint, second)] as const;
  const rounds: TextResult[][] = [];
  for (let round = 0; round < flags.rounds; round++) {
    const results: TextResult[] = [];
    for (const which of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const { levels, warmup, ...bench } = benches[which];
      const turn = { ...bench, levels: levels.slice(0, 1), warmup: round === 0 ? warmup : [] };
      await runTextBench(
        turn,
        (result) => {
          results[which] = result;
        },
        reporter,
        signal,
      );
    }
    rounds.push(results);
  }
  const ratios = textRatios(rounds);
  writeReport(flags["report-json"], () => `${JSON.stringify({ ...facts, against: second, ratios }, undefined, 2)}\n`);
  reporter.result(textRatiosText(ratios, rounds.length), { ...facts, against: second, ratios });
}

function writeReport(path: string | undefined, text: () => string): void {
  if (path === undefined) return;
  try {
    writeFileSync(path, text());
  } catch (error) {
    throw fileError("write", path, error);
  }
}
