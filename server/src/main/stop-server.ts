/**
 * The end of a server, in order: not ready, after a while no new requests, accepted ones finish, models unload callers first, traces and
 * metrics go last. Part of the composition root.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { type BusyModel, connectionLines, inferenceLines, startCountdown, unloadLines } from "../observe/drain-log.ts";
import type { ServerLog } from "../observe/log.ts";
import type { Tracer } from "../observe/trace/tracer.ts";
import type { RepositoryServer } from "../repository/model-server.ts";
import type { ModelRegistry } from "../repository/registry.ts";
import type { RunningFrontends } from "./frontends.ts";

const MS_PER_S = 1000;
/** Models get this long to unload even when their requests have used up the time allowed. */
const MIN_UNLOAD_MS = 2000;

export interface StopParts {
  readonly options: ServerOptions;
  readonly log: ServerLog;
  readonly server: RepositoryServer;
  readonly registry: ModelRegistry;
  readonly tracer: Tracer;
  readonly frontends: RunningFrontends;
  /** Unloads all models and ends their backends. */
  readonly close: () => Promise<void>;
  /** Somebody does not want to wait. */
  readonly hurried: AbortSignal;
  /** Another process serves on with the same sockets: this one stays ready until its last client has left. */
  readonly isHandedOver: boolean;
}

/** False when the time allowed ran out. */
export async function stopServer(parts: StopParts): Promise<boolean> {
  const { options, log, server, tracer, frontends } = parts;
  if (!parts.isHandedOver) {
    server.state = "exiting";
    await serveOn(parts);
  }
  const graceMs = options.exitTimeoutSecs * MS_PER_S;
  const deadlineMs = performance.now() + graceMs;
  const isQuiet = await finishRequests(parts, graceMs, deadlineMs);
  server.state = "exiting";
  log.info("server", "All models are stopped, unloading models");
  const isUnloaded = await unload(parts, deadlineMs);
  await tracer.close();
  await frontends.closeMetrics();
  if (!isQuiet || !isUnloaded) log.error("server", "Exit timeout expired. Exiting immediately.");
  return isQuiet && isUnloaded;
}

/** Balancers learn by and by that this server is not ready any more; what they send until then is answered as before. */
async function serveOn({ options, log, hurried }: StopParts): Promise<void> {
  const { drainDelaySecs } = options;
  if (drainDelaySecs === 0 || hurried.aborted) return;
  log.info("server", `Not ready any more; serving on for ${drainDelaySecs} s`);
  await sleep(drainDelaySecs * MS_PER_S, undefined, { signal: hurried }).catch(() => undefined);
}

async function finishRequests(
  { log, registry, frontends, isHandedOver }: StopParts,
  graceMs: number,
  deadlineMs: number,
): Promise<boolean> {
  const closing = frontends.closeInference(graceMs, isHandedOver);
  using _connections = startCountdown(log, deadlineMs, (left) => connectionLines(left, frontends.open));
  log.info("server", "Waiting for in-flight requests to complete.");
  using _inferences = startCountdown(log, deadlineMs, (left) => inferenceLines(left, busyModels(registry)));
  return await closing;
}

async function unload({ log, registry, frontends, close }: StopParts, deadlineMs: number): Promise<boolean> {
  const numLive = (): number => [...registry.allReady()].length;
  using _countdown = startCountdown(log, deadlineMs, (left) => unloadLines(left, numLive(), frontends.open));
  const leftMs = Math.max(MIN_UNLOAD_MS, deadlineMs - performance.now());
  return await Promise.race([close().then(() => true), sleep(leftMs, false, { ref: false })]);
}

function busyModels(registry: ModelRegistry): BusyModel[] {
  return [...registry.allReady()].filter(({ inFlight }) => inFlight > 0);
}
