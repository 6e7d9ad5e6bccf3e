/** The result of a load on a language model: tables, CSV, JSON, a page. Pure. */
import type { TextResult } from "../run/text-run.ts";
import { distribution, type ReportPage } from "./html-page.ts";
import type { RunFacts } from "./infer-report.ts";

const COLUMNS = ["avg", "min", "max", "p99", "p90", "p75", "p50"] as const;
const LABEL_WIDTH = 36;
const CELL_WIDTH = 10;

export function textTable(result: TextResult): string {
  const { metrics, load, kind } = result;
  const head = ["".padEnd(LABEL_WIDTH), ...COLUMNS.map((name) => name.padStart(CELL_WIDTH))].join("");
  const rows = [...metrics.summaries].map(([name, summary]) => {
    const { mean, min, max, percentiles } = summary;
    const values = [mean, min, max, ...[99, 90, 75, 50].map((each) => percentiles.get(each) ?? Number.NaN)];
    return [name.padEnd(LABEL_WIDTH), ...values.map((value) => figure(value).padStart(CELL_WIDTH))].join("");
  });
  const totals = totalsOf(result).map(
    ([name, value]) => `${name.padEnd(LABEL_WIDTH)}${figure(value).padStart(CELL_WIDTH)}`,
  );
  return [
    `${kind === "trace" ? "Trace" : kind === "rate" ? "Request rate" : "Concurrency"}: ${load}`,
    head,
    ...rows,
    ...totals,
  ].join("\n");
}

function totalsOf({ metrics }: TextResult): (readonly [name: string, value: number])[] {
  return [
    ["output_token_throughput_per_second", metrics.outputTokensPerSecond],
    ["request_throughput_per_second", metrics.requestsPerSecond],
    ...(metrics.goodput === undefined ? [] : [["goodput_per_second", metrics.goodput] as const]),
    ["request_count", metrics.numGood],
    ["failed_request_count", metrics.numFailed],
    ["benchmark_duration_seconds", metrics.seconds],
  ];
}

function figure(value: number): string {
  return Number.isNaN(value) ? "-" : value.toFixed(2);
}

export function textJson(result: TextResult): Record<string, unknown> {
  const summaries = [...result.metrics.summaries].map(([name, { mean, deviation, min, max, percentiles }]) => {
    const shares = Object.fromEntries([...percentiles].map(([each, value]) => [`p${each}`, value]));
    return [name, { avg: mean, std: deviation, min, max, ...shares }];
  });
  return {
    [result.kind === "rate" ? "request_rate" : result.kind]: result.load,
    ...Object.fromEntries(summaries),
    ...Object.fromEntries(totalsOf(result)),
  };
}

export function textCsv(results: readonly TextResult[]): string {
  const lines = results.flatMap((result) => {
    const rows = [...result.metrics.summaries].map(([name, { mean, min, max, percentiles }]) =>
      [result.load, name, mean, min, max, ...[99, 95, 90, 75, 50, 25].map((each) => percentiles.get(each))].join(","),
    );
    return [...rows, ...totalsOf(result).map(([name, value]) => `${result.load},${name},${value}`)];
  });
  return `${["load,metric,avg,min,max,p99,p95,p90,p75,p50,p25", ...lines].join("\n")}\n`;
}

export function textPage(results: readonly TextResult[], facts: RunFacts, warnings: readonly string[]): ReportPage {
  const [first] = results;
  const xLabel = first?.kind === "rate" ? "requests a second" : (first?.kind ?? "");
  const shown = results.slice(-5);
  const latency = (name: string, title: string, share: number): ReportPage["plots"][number] => ({
    title,
    xLabel,
    yLabel: "ms",
    series: [50, share].map((each) => ({
      name: `p${each}`,
      points: results.map(({ load, metrics }) => [
        load,
        metrics.summaries.get(name)?.percentiles.get(each) ?? Number.NaN,
      ]),
    })),
  });
  return {
    title: `${facts.model}: load test of a language model`,
    facts: Object.entries(facts),
    warnings,
    tables: results.map(tableOf),
    plots: [
      {
        title: "Output tokens a second",
        xLabel,
        yLabel: "tokens/s",
        series: [{ name: "all", points: results.map(({ load, metrics }) => [load, metrics.outputTokensPerSecond]) }],
      },
      latency("time_to_first_token_ms", "Time to first token", 99),
      latency("inter_token_latency_ms", "Inter-token latency", 99),
      {
        title: "Distribution of the time to first token",
        xLabel: "ms",
        yLabel: "% of requests",
        series: shown.map(({ load, records }) => ({
          name: String(load),
          points: distribution(records.map(({ ttftMs }) => ttftMs)),
        })),
      },
      {
        title: "Time to first token during the run",
        xLabel: "s",
        yLabel: "ms",
        series: shown.map(({ load, records }) => {
          const sorted = [...records].sort((a, b) => a.startMs - b.startMs);
          const startMs = sorted[0]?.startMs ?? 0;
          return {
            name: String(load),
            points: sorted.map((record) => [(record.startMs - startMs) / 1000, record.ttftMs]),
          };
        }),
      },
    ],
  };
}

function tableOf(result: TextResult): ReportPage["tables"][number] {
  const rows = [...result.metrics.summaries].map(([name, { mean, min, max, percentiles }]) => {
    const values = [mean, min, max, ...[99, 90, 75, 50].map((each) => percentiles.get(each) ?? Number.NaN)];
    return [name, ...values.map(figure)];
  });
  const totals = totalsOf(result).map(([name, value]) => [name, figure(value)]);
  return { title: `${result.kind} ${result.load}`, head: ["", ...COLUMNS], rows: [...rows, ...totals] };
}
