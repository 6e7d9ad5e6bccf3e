/** The result of a load on a V2 server as text and CSV, with the words and columns of perf_analyzer. Pure. */
import type { LevelResult } from "../run/measure-level.ts";
import type { ServerStatistics } from "../target/server-api.ts";

/** Averages of a request inside the server, us. */
export interface ServerBreakdown {
  readonly totalUs: number;
  readonly queueUs: number;
  readonly computeInputUs: number;
  readonly computeInferUs: number;
  readonly computeOutputUs: number;
  /** The rest of the total. */
  readonly overheadUs: number;
}

const US_PER_NS = 1000;
const CSV_PERCENTILES = [50, 90, 95, 99];

export function breakdownOf(server: ServerStatistics): ServerBreakdown {
  const of = (ns: number): number => (server.successCount === 0 ? 0 : ns / server.successCount / US_PER_NS);
  const totalUs = of(server.successNs);
  const queueUs = of(server.queueNs);
  const computeInputUs = of(server.computeInputNs);
  const computeInferUs = of(server.computeInferNs);
  const computeOutputUs = of(server.computeOutputNs);
  const overheadUs = Math.max(0, totalUs - queueUs - computeInputUs - computeInferUs - computeOutputUs);
  return { totalUs, queueUs, computeInputUs, computeInferUs, computeOutputUs, overheadUs };
}

export function inferencesPerSecond({ merged, batchSize }: LevelResult): number {
  return merged.requestsPerSecond * batchSize;
}

export function loadName({ kind }: LevelResult): string {
  return kind === "concurrency" ? "Concurrency" : kind === "rate" ? "Request Rate" : "Request Intervals";
}

export function levelText(result: LevelResult, percentile: number | undefined): string {
  const { merged, server, isStable, windows, kind, load } = result;
  const { latencyUs } = merged;
  const head =
    kind === "concurrency" ? `Request concurrency: ${load}` : `Request Rate: ${load} inference requests per second`;
  const lines = [
    head,
    "  Client:",
    `    Request count: ${merged.count}`,
    ...(merged.numFailed > 0 ? [`    Failed requests: ${merged.numFailed}`] : []),
    `    Throughput: ${inferencesPerSecond(result).toFixed(2)} infer/sec`,
    `    Avg latency: ${us(latencyUs.mean)} usec (standard deviation ${us(latencyUs.deviation)} usec)`,
    ...[...latencyUs.percentiles].map(([each, value]) => `    p${each} latency: ${us(value)} usec`),
    ...(server === undefined ? [] : serverLines(server)),
    ...(isStable ? [] : [`  Not steady within ${windows.length} windows; try a longer --measurement-interval`]),
  ];
  return percentile === undefined ? lines.join("\n") : `${lines.join("\n")}\n  Stabilized on p${percentile}`;
}

function serverLines(server: ServerStatistics): string[] {
  const { totalUs, overheadUs, queueUs, computeInputUs, computeInferUs, computeOutputUs } = breakdownOf(server);
  const parts = `overhead ${us(overheadUs)} usec + queue ${us(queueUs)} usec + compute input ${us(computeInputUs)} usec + compute infer ${us(computeInferUs)} usec + compute output ${us(computeOutputUs)} usec`;
  return [
    "  Server:",
    `    Inference count: ${server.inferenceCount}`,
    `    Execution count: ${server.executionCount}`,
    ...(server.cacheHitCount > 0 ? [`    Cache hit count: ${server.cacheHitCount}`] : []),
    `    Successful request count: ${server.successCount}`,
    `    Avg request latency: ${us(totalUs)} usec (${parts})`,
  ];
}

export function summaryText(results: readonly LevelResult[], percentile: number | undefined): string {
  const name = percentile === undefined ? "latency" : `p${percentile} latency`;
  const lines = results.map((result) => {
    const { latencyUs } = result.merged;
    const latency = percentile === undefined ? latencyUs.mean : latencyUs.percentiles.get(percentile);
    return `${loadName(result)}: ${result.load}, throughput: ${inferencesPerSecond(result).toFixed(2)} infer/sec, ${name} ${us(latency)} usec`;
  });
  return ["Inferences/Second vs. Client Average Batch Latency", ...lines].join("\n");
}

/**
 * The time of sending and receiving in the client is part of "Network+Server Send/Recv": a socket of Node does not tell it. Its
 * own columns are empty.
 */
export function inferCsv(results: readonly LevelResult[]): string {
  const [first] = results;
  if (first === undefined) return "";
  const server = "Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output";
  const percentiles = [...new Set([...CSV_PERCENTILES, ...first.merged.latencyUs.percentiles.keys()])];
  const head = `${loadName(first)},Inferences/Second,Client Send,Network+Server Send/Recv,${server},Client Recv,${percentiles.map((each) => `p${each} latency`).join(",")}`;
  const sorted = [...results].sort((a, b) => a.load - b.load);
  return `${[head, ...sorted.map((result) => csvLine(result, percentiles))].join("\n")}\n`;
}

function csvLine(result: LevelResult, percentiles: readonly number[]): string {
  const { load, server, merged } = result;
  const parts = server === undefined ? undefined : breakdownOf(server);
  const inside = parts === undefined ? 0 : parts.totalUs - parts.overheadUs;
  const own = [parts?.queueUs, parts?.computeInputUs, parts?.computeInferUs, parts?.computeOutputUs];
  const latencies = percentiles.map((each) => us(merged.latencyUs.percentiles.get(each)));
  const network = us(merged.latencyUs.mean - inside);
  return [load, inferencesPerSecond(result).toFixed(2), "", network, ...own.map(us), "", ...latencies].join(",");
}

function us(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? "" : String(Math.round(value));
}
