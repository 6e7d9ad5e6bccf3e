/** Restarts of servers under steady load, and the count of what they cost: two behind a proxy in turn, or the workers of one. */
import assert from "node:assert/strict";
import process from "node:process";
import { eventually, readMetric } from "../support/probe-server.ts";
import type { TriedProxy } from "../support/proxies.ts";
import { freePorts, type Ports, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type LoadTally, loadRepository, startSteadyLoad } from "../support/steady-load.ts";

const REQUESTS_PER_SECOND = 200;
const NUM_STREAMS = 20;
/** As in docs/rolling-restarts.md: more than three checks of a proxy. */
const DRAIN_DELAY_SECS = 3;

/** Ends with whichever comes first. */
export interface Extent {
  readonly restarts: number;
  /** On the clock of performance.now(). */
  readonly deadlineMs?: number;
}

export interface Restarted extends LoadTally {
  readonly restarts: number;
}

/** Two servers behind a proxy, ended by SIGTERM and started again in turn. @throws AssertionError when a server ends badly */
export async function restartBehind(
  proxy: TriedProxy,
  { restarts, deadlineMs = Number.POSITIVE_INFINITY }: Extent,
): Promise<Restarted> {
  await using repository = await loadRepository();
  const start = (ports: Ports): Promise<ServerProcess> => {
    const flags = [`--drain-delay-secs=${DRAIN_DELAY_SECS}`];
    return startServerProcess({ repositories: [repository.path], flags, ports });
  };
  const ports = [await freePorts(), await freePorts()];
  const servers = await Promise.all(ports.map(start));
  try {
    await using running = await proxy.start(ports.map(({ http }) => http));
    const load = startSteadyLoad(running.port, REQUESTS_PER_SECOND, NUM_STREAMS);
    let done = 0;
    for (; done < restarts && performance.now() < deadlineMs; done += 1) {
      // Both get requests from the proxy: it knows that they are back.
      await Promise.all(servers.map(untilAsked));
      const which = done % 2;
      await servers[which]?.stop();
      servers[which] = await start(ports[which] ?? (await freePorts()));
    }
    await load.stop();
    return { ...load.tally, restarts: done };
  } finally {
    await Promise.all(servers.map((server) => server.kill()));
  }
}

async function untilAsked(server: ServerProcess): Promise<void> {
  await eventually(
    () => readMetric(server, "nv_inference_request_success", 'model="echo"'),
    (count) => count > 0,
  );
}

/** One server of two workers without a proxy, told by SIGHUP to replace them. */
export async function rollWorkers({ restarts, deadlineMs = Number.POSITIVE_INFINITY }: Extent): Promise<Restarted> {
  await using repository = await loadRepository();
  const server = await startServerProcess({ repositories: [repository.path], flags: ["--workers=2"] });
  try {
    const log = (): Promise<string> => Promise.resolve(server.log());
    await eventually(log, (text) => text.includes("2 workers serve"));
    const load = startSteadyLoad(server.http, REQUESTS_PER_SECOND, NUM_STREAMS);
    let done = 0;
    while (done < restarts && performance.now() < deadlineMs) {
      process.kill(server.pid, "SIGHUP");
      done += 1;
      await eventually(log, (text) => text.split("Rolling restart done").length === done + 1);
    }
    await load.stop();
    assert.equal(server.log().includes("given up"), false, server.log());
    await server.stop();
    return { ...load.tally, restarts: done };
  } finally {
    await server.kill();
  }
}
