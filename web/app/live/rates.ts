/** From counters of two moments to what a chart draws. Pure. A counter that fell belongs to a model that was loaded again. */
import type { ConsoleLive, ConsoleLlm, ConsoleModelLoad } from "@nereid/server/protocol/console/console-types";

const MS_PER_S = 1000;
const US_PER_MS = 1000;
const NS_PER_MS = 1e6;

/** One moment of the live view. NaN: nothing is known. */
export interface LivePoint {
  /** Seconds since the Unix epoch. */
  readonly atS: number;
  readonly requestsPerS: number;
  readonly failuresPerS: number;
  readonly tokensPerS: number;
  /** Requests that wait, and requests that were accepted and have not ended. */
  readonly pending: number;
  readonly inFlight: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  /** Means of a request. */
  readonly queueMs: number;
  readonly batchSize: number;
  /** Share of a processor that the server used. */
  readonly cpuShare: number;
  /** Shares since the moment before. */
  readonly prefixHitShare: number;
  readonly draftShare: number;
}

/** `model` "" = all of them, whose percentiles are those of the slowest. */
export function livePoint(before: ConsoleLive, now: ConsoleLive, model: string): LivePoint {
  const seconds = (now.atMs - before.atMs) / MS_PER_S;
  const own = modelsOf(now, model);
  const old = new Map(before.models.map((each) => [keyOf(each), each]));
  const grown = (read: (load: ConsoleModelLoad) => number): number =>
    own.reduce((sum, each) => sum + growth(old.get(keyOf(each)), each, read), 0);
  const successes = grown(({ numSuccess }) => numSuccess);
  const executions = grown(({ numExecutions }) => numExecutions);
  const latencies = own.flatMap(({ latency }) => latency ?? []);
  const slowest = (read: (latency: (typeof latencies)[number]) => number): number =>
    latencies.length === 0 ? Number.NaN : Math.max(...latencies.map(read)) / US_PER_MS;
  return {
    atS: now.atMs / MS_PER_S,
    requestsPerS: successes / seconds,
    failuresPerS: grown(({ numFailed }) => numFailed) / seconds,
    tokensPerS: grown(({ llm }) => llm?.generatedTokens ?? 0) / seconds,
    pending: own.reduce((sum, { pending }) => sum + pending, 0),
    inFlight: own.reduce((sum, { inFlight }) => sum + inFlight, 0),
    p50Ms: slowest(({ p50Us }) => p50Us),
    p90Ms: slowest(({ p90Us }) => p90Us),
    p99Ms: slowest(({ p99Us }) => p99Us),
    queueMs: grown(({ queueNs }) => queueNs) / NS_PER_MS / successes,
    batchSize: grown(({ numInferences }) => numInferences) / executions,
    cpuShare: (now.process.cpuSeconds - before.process.cpuSeconds) / seconds,
    ...llmShares(grown),
  };
}

function llmShares(grown: (read: (load: ConsoleModelLoad) => number) => number): {
  readonly prefixHitShare: number;
  readonly draftShare: number;
} {
  const reusedTokens = grown(({ llm }) => (llm === undefined ? 0 : llm.kvBlocksReused * llm.tokensPerBlock));
  const promptTokens = grown(({ llm }) => llm?.promptTokens ?? 0);
  const accepted = grown(({ llm }) => llm?.acceptedDraftTokens ?? 0);
  const drafted = grown(({ llm }) => llm?.draftTokens ?? 0);
  return {
    // Prompts count when their requests end, reused blocks when they begin.
    prefixHitShare: promptTokens === 0 ? Number.NaN : Math.min(1, reusedTokens / promptTokens),
    draftShare: drafted === 0 ? Number.NaN : accepted / drafted,
  };
}

function growth(
  before: ConsoleModelLoad | undefined,
  now: ConsoleModelLoad,
  read: (load: ConsoleModelLoad) => number,
): number {
  if (before === undefined) return 0;
  const difference = read(now) - read(before);
  return difference >= 0 ? difference : read(now);
}

export function modelsOf({ models }: ConsoleLive, model: string): readonly ConsoleModelLoad[] {
  return model === "" ? models : models.filter(({ name }) => name === model);
}

/** Executions by batch size, over all of these models. */
export function batchCounts(models: readonly ConsoleModelLoad[]): readonly (readonly [size: number, count: number])[] {
  const counts = new Map<number, number>();
  for (const { batches } of models) {
    for (const [size, count] of batches) counts.set(size, (counts.get(size) ?? 0) + count);
  }
  return [...counts].sort(([a], [b]) => a - b);
}

export type BlockState = "free" | "cached" | "used" | "shared";

/** A cell of the map: the numbers of its blocks, of which it shows the one of most use. */
export interface BlockCell {
  readonly state: BlockState;
  readonly first: number;
  readonly last: number;
}

/** In the order of use; the letters are those of `kvBlockMap`. */
const STATES: readonly (readonly [letter: string, state: BlockState])[] = [
  ["f", "free"],
  ["c", "cached"],
  ["u", "used"],
  ["s", "shared"],
];

/** A cell for each block by its number, or for so many neighbours that `maxCells` hold them. Before the first request all are free. */
export function blockCells(
  { kvBlocksMax, kvBlockMap }: Pick<ConsoleLlm, "kvBlocksMax" | "kvBlockMap">,
  maxCells: number,
): readonly BlockCell[] {
  if (kvBlocksMax === 0) return [];
  const map = kvBlockMap ?? "f".repeat(Math.min(kvBlocksMax, maxCells));
  const perCell = Math.ceil(map.length / maxCells);
  const blocksOfLetter = Math.ceil(kvBlocksMax / map.length);
  return Array.from({ length: Math.ceil(map.length / perCell) }, (_, i) => {
    const letters = map.slice(i * perCell, (i + 1) * perCell);
    const state = STATES.findLast(([letter]) => letters.includes(letter))?.[1] ?? "free";
    const first = i * perCell * blocksOfLetter;
    return { state, first, last: Math.min(kvBlocksMax, first + letters.length * blocksOfLetter) - 1 };
  });
}

function keyOf({ name, version }: ConsoleModelLoad): string {
  return `${name}/${version}`;
}
