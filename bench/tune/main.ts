/**
 * `nereid tune` beside the full grid: each search finds a configuration, and the grid says how good it is.
 * `npm run build && node --conditions=nereid-source --import ./tools/loader/register.mjs bench/tune/main.ts [--interval=2000] [--model=NAME]`.
 * Prints the table of bench/results/tune.md. The grids take some minutes each.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pairedRatio } from "../../perf/src/statistics/ratio.ts";
import { type BenchModel, writeModels } from "./models.ts";

interface Point {
  readonly settings: Readonly<Record<string, unknown>>;
  readonly concurrency: number;
  readonly perf_throughput: number;
  readonly perf_latency_p99: number;
}

interface Result {
  readonly seconds: number;
  readonly num_loads: number;
  readonly best: Point | null;
  readonly points: readonly Point[];
}

const { values: flags } = parseArgs({
  options: { interval: { type: "string", default: "2000" }, model: { type: "string" } },
});
/** Pairs of runs that compare two points. */
const ROUNDS = 4;
const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-bench-tune-"));
const repository = join(folder, "models");
try {
  const models = writeModels(repository);
  process.stdout.write("| model | search | found | throughput of the grid's best | s | share of the grid's time |\n");
  process.stdout.write("|---|---|---|---|---|---|\n");
  for (const each of models) {
    if (flags.model !== undefined && flags.model !== each.name) continue;
    const grid = tune(each.name, [...each.flags, "--exhaustive"]);
    const values = [...Object.values(grid.best?.settings ?? {}), grid.best?.concurrency].join(", ");
    const rate = grid.best?.perf_throughput.toFixed(1);
    process.stdout.write(
      `| ${[each.name, "full grid", values, `${rate} infer/s`, grid.seconds.toFixed(0), ""].join(" | ")} |\n`,
    );
    for (const mode of ["brute", "quick"]) {
      report(each, mode, tune(each.name, [...each.flags, `--run-config-search-mode=${mode}`]), grid);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function tune(model: string, own: readonly string[]): Result {
  const out = join(folder, "out");
  const output = [
    `--output-model-repository-path=${out}`,
    "--override-output-model-repository",
    `--export-path=${out}`,
  ];
  const argv = [
    "tune",
    `--model-repository=${repository}`,
    `--profile-models=${model}`,
    "-p",
    flags.interval,
    "-q",
    ...output,
    ...own,
  ];
  execFileSync(process.execPath, [NEREID, ...argv], { stdio: ["ignore", "ignore", "inherit"] });
  const { results } = JSON.parse(readFileSync(join(out, "tune.json"), "utf8")) as { results: readonly Result[] };
  const [result] = results;
  if (result === undefined) throw new Error(`no result for ${model}`);
  return result;
}

function report(model: BenchModel, mode: string, found: Result, grid: Result): void {
  const { best } = found;
  if (best === null || grid.best === null) throw new Error(`${model.name}, ${mode}: nothing was found`);
  const values = [...Object.values(best.settings), best.concurrency].join(", ");
  const cells = [model.name, mode, values, confirmed(model.name, grid.best, best), found.seconds.toFixed(0)];
  process.stdout.write(`| ${[...cells, percent(found.seconds / grid.seconds)].join(" | ")} |\n`);
}

/** Both points again, in turns: while a grid is measured, other work on the machine comes and goes. */
function confirmed(name: string, gridBest: Point, found: Point): string {
  if (keyOf(gridBest) === keyOf(found)) return "100 %, the same";
  const pairs = Array.from({ length: ROUNDS }, (): [number, number] => [rateAt(name, gridBest), rateAt(name, found)]);
  const { ratio, low, high } = pairedRatio(pairs);
  return `${percent(ratio)} (${percent(low)} to ${percent(high)})`;
}

function rateAt(name: string, { settings, concurrency }: Point): number {
  const { instance_count: count, max_batch_size: batch, max_queue_delay_microseconds: delay } = settings;
  const one = ["instance-count", "model-batch-size"].flatMap((setting, k) =>
    ["min", "max"].map((end) => `--run-config-search-${end}-${setting}=${k === 0 ? count : batch}`),
  );
  const { points } = tune(name, [...one, `--queue-delays=${delay}`, `--concurrency=${concurrency}`, "--exhaustive"]);
  return points[0]?.perf_throughput ?? Number.NaN;
}

function keyOf({ settings, concurrency }: Point): string {
  return JSON.stringify([settings, concurrency]);
}

function percent(value: number): string {
  return `${(value * 100).toFixed(1)} %`;
}
