/**
 * Ends the processes or threads of a model at random points under load, and counts what that costs: every request has exactly
 * one end, the model comes back each time, and nothing is left behind. Knows no backend: the caller says what is struck.
 */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { childrenOf, isRunning } from "./child-processes.ts";
import { KeepAliveClient } from "./hostile-http.ts";
import { eventually, readMetric, residentBytes } from "./probe-server.ts";
import type { Random } from "./random.ts";
import type { ServerProcess } from "./server-process.ts";

const MAX_PAUSE_MS = 60;
/** More than what a loaded server moves by itself. */
const MAX_GROWTH_BYTES = 200 * 1024 * 1024;
const NUM_LOADS = 5;

export interface FaultSubject {
  readonly server: ServerProcess;
  readonly model: string;
  /** Same as `model`, not loaded: its loads under the same load are what a recovery is compared with. */
  readonly copy: string;
  /** Part of the command lines of its processes; undefined: threads of the server. */
  readonly program: string | undefined;
  readonly numClients: number;
  /** One request. True: answered; false: failed with the one error that is right. @throws for anything else */
  send(client: KeepAliveClient, number: number): Promise<boolean>;
  /** Ends one process or thread, says how, and resolves when it is gone. */
  strike(random: Random): Promise<Stroke>;
}

export interface Stroke {
  readonly kind: string;
  readonly startMs: number;
  /** Resolves when what was struck has a successor. */
  recovered(): Promise<void>;
}

export interface FaultTally {
  sent: number;
  answered: number;
  failed: number;
  points: number;
  loadMs: number;
  maxRecoveryMs: number;
  /** The slowest recovery and the one in the middle, by what was done. */
  readonly recoveryMs: Record<string, { slowest: number; median: number }>;
}

/** Runs until `isOver` says so. Rejects at the first thing that is not as it should be. */
export async function runFaults(
  subject: FaultSubject,
  random: Random,
  isOver: (points: number) => boolean,
): Promise<FaultTally> {
  const { server } = subject;
  const tally: FaultTally = {
    ...{ sent: 0, answered: 0, failed: 0, points: 0, loadMs: 0, maxRecoveryMs: 0 },
    recoveryMs: {},
  };
  const recoveries = new Map<string, number[]>();
  await underLoad(subject, tally, async () => {
    tally.loadMs = await timeLoads(subject);
    const before = await footprint(subject);
    while (!isOver(tally.points)) {
      // A process that dies before it has served is started again with growing pauses.
      const { answered } = tally;
      await eventually(
        async () => tally.answered,
        (now) => now > answered + subject.numClients,
      );
      await sleep(random.below(MAX_PAUSE_MS));
      const { kind, startMs, recovered } = await subject.strike(random);
      await recovered();
      const recoveryMs = Math.round(performance.now() - startMs);
      recoveries.set(kind, [...(recoveries.get(kind) ?? []), recoveryMs]);
      tally.maxRecoveryMs = Math.max(tally.maxRecoveryMs, recoveryMs);
      tally.points += 1;
    }
    await expectNoMore(subject, before);
  });
  assert.equal(tally.answered + tally.failed, tally.sent, "every request has one end");
  for (const [kind, all] of recoveries) {
    tally.recoveryMs[kind] = { slowest: Math.max(...all), median: median(all) };
  }
  await eventually(
    () => readMetric(server, "nv_inference_pending_request_count"),
    (count) => count === 0,
  );
  return tally;
}

/** Kills one of the processes of a model by a signal out of `signals`. */
export async function strikeProcess(
  { server, model, program = "" }: Pick<FaultSubject, "server" | "model" | "program">,
  signals: readonly NodeJS.Signals[],
  random: Random,
): Promise<Stroke> {
  const all = await childrenOf(server.pid, program);
  const victim = random.pick(all);
  const kind = random.pick(signals);
  const startMs = performance.now();
  process.kill(victim, kind);
  await eventually(
    () => isRunning(victim),
    (isThere) => !isThere,
  );
  const recovered = async (): Promise<void> => {
    // The model says that it is ready until its server has seen the end.
    await eventually(
      () => childrenOf(server.pid, program),
      (now) => now.length === all.length && !now.includes(victim),
    );
    await untilModelReady(server, model);
  };
  return { kind, startMs, recovered };
}

export async function untilModelReady({ baseUrl }: ServerProcess, model: string): Promise<void> {
  await eventually(
    async () => (await fetch(`${baseUrl}/v2/models/${model}/ready`)).status,
    (status) => status === 200,
  );
}

/** Stops the server, and asserts that its processes have ended with it. */
export async function stopSubject({ server, program }: FaultSubject): Promise<void> {
  const children = program === undefined ? [] : await childrenOf(server.pid, program);
  await server.stop();
  for (const child of children) assert.equal(await isRunning(child), false, `process ${child} outlived the server`);
}

async function underLoad(subject: FaultSubject, tally: FaultTally, work: () => Promise<void>): Promise<void> {
  using client = new KeepAliveClient(subject.server.http, subject.numClients);
  let isOn = true;
  const sendOne = async (): Promise<void> => {
    tally.sent += 1;
    if (await subject.send(client, tally.sent)) tally.answered += 1;
    else tally.failed += 1;
  };
  const firstAnswers: Promise<void>[] = [];
  const clients = Array.from({ length: subject.numClients }, async () => {
    const first = sendOne();
    firstAnswers.push(first);
    await first;
    while (isOn) await sendOne();
  });
  const failed = Promise.all(clients); // a client that finds a fault ends the run at once
  try {
    await Promise.all(firstAnswers); // every client has its connection
    await Promise.race([work(), failed]);
  } finally {
    isOn = false;
    await failed;
  }
}

/** Median milliseconds of a load, as the requests under way leave it. */
async function timeLoads({ server, copy, program }: FaultSubject): Promise<number> {
  const numChildren = async (): Promise<number> =>
    program === undefined ? 0 : (await childrenOf(server.pid, program)).length;
  const numBefore = await numChildren();
  const times: number[] = [];
  for (let load = 0; load < NUM_LOADS; load += 1) {
    const startMs = performance.now();
    await post(`${server.baseUrl}/v2/repository/models/${copy}/load`);
    times.push(Math.round(performance.now() - startMs));
    await post(`${server.baseUrl}/v2/repository/models/${copy}/unload`);
    await eventually(numChildren, (count) => count === numBefore); // an unload is answered before the process has ended
  }
  return median(times);
}

async function post(url: string): Promise<void> {
  const reply = await fetch(url, { method: "POST" });
  assert.equal(reply.status, 200, await reply.text());
}

interface Footprint {
  readonly children: number;
  readonly descriptors: number;
  readonly bytes: number;
}

async function footprint({ server, program }: FaultSubject): Promise<Footprint> {
  const children = program === undefined ? [] : await childrenOf(server.pid, program);
  const descriptors = await readdir(`/proc/${server.pid}/fd`);
  return { children: children.length, descriptors: descriptors.length, bytes: await residentBytes(server.pid) };
}

async function expectNoMore(subject: FaultSubject, before: Footprint): Promise<void> {
  const now = await eventually(
    () => footprint(subject),
    ({ children, descriptors }) => children <= before.children && descriptors <= before.descriptors,
  );
  const grownBytes = now.bytes - before.bytes;
  assert.ok(grownBytes < MAX_GROWTH_BYTES, `the server has grown by ${grownBytes} bytes`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}
