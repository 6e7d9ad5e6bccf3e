/** Two servers under the same load, in turns, so that what slows the machine meets both. */
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { summarizeWindows, type WindowSummary } from "../statistics/exchange-log.ts";
import { pairedRatio, type Ratio } from "../statistics/ratio.ts";
import type { InferTarget, Level } from "./infer-run.ts";

export interface AgainstResult {
  readonly load: number;
  readonly rounds: readonly (readonly [first: WindowSummary, second: WindowSummary])[];
  /** Second server / first server. */
  readonly throughput: Ratio;
  readonly p50: Ratio;
  readonly p99: Ratio;
}

/** Share of a window that goes first, unmeasured: the load has just changed servers. */
const SETTLE_SHARE = 0.2;
const PERCENTILES = [50, 99];

/** `windowMs`: of each server in each round. Odd rounds begin with the second server. */
export async function measureAgainst(
  targets: readonly [InferTarget, InferTarget],
  level: Level,
  { rounds, windowMs }: { readonly rounds: number; readonly windowMs: number },
  reporter: Reporter,
  signal: AbortSignal,
): Promise<AgainstResult> {
  const progress = reporter.startTask({ task: `${level.kind} ${level.value}`, unit: "windows", total: 2 * rounds });
  const pairs: (readonly [WindowSummary, WindowSummary])[] = [];
  try {
    for (let round = 0; round <= rounds; round++) {
      const isSwapped = round % 2 === 1;
      const order = isSwapped ? ([1, 0] as const) : ([0, 1] as const);
      const summaries: WindowSummary[] = [];
      for (const which of order) summaries[which] = await turn(targets[which], level, windowMs, signal);
      if (round === 0) continue; // warm-up of both
      const [first, second] = summaries;
      if (first === undefined || second === undefined) throw new RangeError("a turn is missing");
      pairs.push([first, second]);
      progress.add(2);
    }
  } finally {
    progress.end();
  }
  const ratioOf = (of: (summary: WindowSummary) => number): Ratio =>
    pairedRatio(pairs.map(([first, second]) => [of(first), of(second)]));
  return {
    load: level.value,
    rounds: pairs,
    throughput: ratioOf(({ requestsPerSecond }) => requestsPerSecond),
    p50: ratioOf(({ latencyUs }) => latencyUs.percentiles.get(50) ?? Number.NaN),
    p99: ratioOf(({ latencyUs }) => latencyUs.percentiles.get(99) ?? Number.NaN),
  };
}

async function turn(
  { generator }: InferTarget,
  { load }: Level,
  windowMs: number,
  signal: AbortSignal,
): Promise<WindowSummary> {
  generator.apply(load);
  await generator.window(windowMs * SETTLE_SHARE, 0, signal);
  const samples = await generator.window(windowMs, 0, signal);
  await generator.pause(signal);
  if (samples.latenciesMs.length === 0) {
    throw new ToolError(`no good answer within ${windowMs} ms: ${generator.failure ?? "none came"}`);
  }
  return summarizeWindows([samples], PERCENTILES);
}

export function againstText({ load, throughput, p50, p99, rounds }: AgainstResult, name: string): string {
  const mean = (which: 0 | 1): string => {
    const rates = rounds.map((pair) => pair[which].requestsPerSecond);
    return (rates.reduce((sum, rate) => sum + rate, 0) / rates.length).toFixed(1);
  };
  return [
    `${name} ${load}: second / first, ${rounds.length} rounds; ${mean(0)} and ${mean(1)} requests/s`,
    ratioLine("throughput", throughput),
    ratioLine("p50 latency", p50),
    ratioLine("p99 latency", p99),
  ].join("\n");
}

export function ratioLine(label: string, { ratio, low, high }: Ratio): string {
  return `  ${label.padEnd(12)} ${ratio.toFixed(3)}  (95 % confidence: ${low.toFixed(3)} to ${high.toFixed(3)})`;
}
