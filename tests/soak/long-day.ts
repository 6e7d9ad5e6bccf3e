/**
 * One server that runs on through many parts: mixed traffic of every backend and protocol, hostile clients, reloads and kills. Each part adds its
 * samples to those before it. The part that completes `NEREID_LONG_DAY_HOURS` (8) of traffic ends the server and judges all of them.
 */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { CACHE_FOLDER } from "../cache-folder.ts";
import { type InsideServer, insideServer } from "../inside/inside-server.ts";
import { eventually } from "../support/probe-server.ts";
import { endDay, startDay, takeSample } from "./long-day/day-server.ts";
import { churn, disturbClients, kill, reload } from "./long-day/disturbances.ts";
import { plotDay } from "./long-day/plot.ts";
import { type DayState, loadState, type Sample, saveState } from "./long-day/state.ts";
import { Traffic } from "./long-day/traffic.ts";
import { slopePer } from "./slope.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const RECORDS = fileURLToPath(new URL("records/", import.meta.url));
const FOLDER = join(CACHE_FOLDER, "long-day");
const STATE = join(FOLDER, "state.json");
const DEFAULT_HOURS = 8;
const SECONDS_PER_HOUR = 3600;
/** Between two samples. */
const ROUND_SECONDS = 50;
/** A small share of one core: the machine has other work. */
const REQUESTS_PER_SECOND = 6;
/** A cache fills, and code is compiled, before the trend counts. */
const WARM_UP_SHARE = 1 / 3;
const MAX_SLOPE_BYTES_PER_HOUR = 1024 * 1024;
/** Connections of the soak itself. */
const MAX_MORE_DESCRIPTORS = 8;

export const longDaySoak: Soak = { name: "long-day", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const hours = Number(process.env.NEREID_LONG_DAY_HOURS ?? DEFAULT_HOURS);
  mkdirSync(FOLDER, { recursive: true });
  const inside = await insideServer(FOLDER);
  const state = loadState(STATE) ?? (await startDay(FOLDER, inside));
  state.counts.parts += 1;
  using traffic = new Traffic(state, seed);
  do {
    await runRound(state, traffic, inside, seed);
    saveState(STATE, state);
    record(state);
  } while (performance.now() < deadlineMs);
  const isOver = state.counts.seconds >= hours * SECONDS_PER_HOUR;
  if (isOver) await endDay(state);
  // The trend of a part is that of its warm-up.
  return judge(state, isOver ? MAX_SLOPE_BYTES_PER_HOUR : Number.POSITIVE_INFINITY);
}

/** Traffic with what disturbs it, then silence, then a sample. */
async function runRound(state: DayState, traffic: Traffic, inside: InsideServer, seed: number): Promise<void> {
  const startMs = performance.now();
  await Promise.all([
    traffic.run(ROUND_SECONDS, REQUESTS_PER_SECOND),
    disturbClients(state, traffic.peers, seed),
    disturbModels(state, traffic),
  ]);
  await untilIdle(state);
  state.counts.seconds += (performance.now() - startMs) / 1000;
  state.samples.push(await takeSample(state, inside));
}

/** In turn, so that a reload never meets a killed process: that is the subject of other tests. */
async function disturbModels(state: DayState, traffic: Traffic): Promise<void> {
  await reload(state, traffic.peers, join(FOLDER, "models"));
  await churn(state, traffic.peers);
  await kill(state, traffic.peers, traffic.killed);
}

async function untilIdle({ ports }: DayState): Promise<void> {
  const pending = async (): Promise<number> => {
    const page = await (await fetch(`http://127.0.0.1:${ports.metrics}/metrics`)).text();
    const lines = page.split("\n").filter((line) => line.startsWith("nv_inference_pending_request_count{"));
    assert.notEqual(lines.length, 0);
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  };
  await eventually(pending, (count) => count === 0);
}

/** Samples as a table and as a plot, named after the day's beginning. */
function record({ startedAt, samples, counts, lost }: DayState): void {
  const name = join(RECORDS, `${startedAt.slice(0, 16).replace(":", "")}-long-day`);
  const columns = Object.keys(samples[0] ?? {}) as (keyof Sample)[];
  const rows = samples.map((sample) => columns.map((column) => Number(sample[column].toFixed(4))).join(","));
  writeFileSync(`${name}.csv`, `${[columns.join(","), ...rows].join("\n")}\n`);
  const title = `${(counts.seconds / SECONDS_PER_HOUR).toFixed(2)} hours of traffic in ${counts.parts} parts: ${counts.answered} answered, ${counts.kills} kills, ${counts.reloads} reloads, ${lost.length} lost`;
  writeFileSync(`${name}.svg`, plotDay(title, samples));
}

function judge({ samples, counts, lost }: DayState, maxBytesPerHour: number): SoakResult {
  const steady = samples.slice(Math.floor(samples.length * WARM_UP_SHARE));
  const slope = (of: (sample: Sample) => number): number =>
    slopePer(
      1,
      steady.map((sample): [number, number] => [sample.hours, of(sample)]),
    );
  const [first, last] = [steady[0], steady.at(-1)];
  assert.ok(first !== undefined && last !== undefined);
  const result = {
    ...counts,
    seconds: Math.round(counts.seconds),
    lost: lost.length,
    samples: samples.length,
    residentBytes: last.residentBytes,
    residentBytesPerHour: slope((sample) => sample.residentBytes),
    heapBytesPerHour: slope((sample) => sample.heapBytes + sample.externalBytes),
    childrenBytesPerHour: slope((sample) => sample.childrenBytes),
    descriptorsFirst: first.descriptors,
    descriptorsLast: last.descriptors,
  };
  const text = JSON.stringify(result);
  assert.deepEqual(lost, [], text);
  assert.ok(last.descriptors <= first.descriptors + MAX_MORE_DESCRIPTORS, `descriptors grow: ${text}`);
  assert.ok(result.residentBytesPerHour < maxBytesPerHour, `memory grows: ${text}`);
  return result;
}
