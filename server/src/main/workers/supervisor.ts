/**
 * The process of `--workers`: it holds the listening sockets, keeps that many copies of the server running, and replaces them one
 * by one. It knows no model and answers no request but those for the metrics. bench/results/workers.md says why copies.
 */
import type { ServerOptions } from "../../config/flags/server-options.ts";
import type { Logger } from "../../observe/log.ts";
import { createMetricsFrontend, type MetricsFrontend } from "../../protocol/metrics/frontend.ts";
import { expectFree, type ListeningPlace, listenError, placeOf } from "../expect-free.ts";
import { metricsCors } from "../listener-access.ts";
import { mergePages, type WorkerPage } from "./merge-pages.ts";
import { WorkerSlot } from "./worker-slot.ts";

export interface Supervisor {
  /** Replaces all processes, one after the other; a call during another one is done behind it, once. */
  roll(): void;
  /** Drains all processes; resolves to the exit code. */
  stop(): Promise<number>;
  hurry(): void;
}

/** Resolves when all processes serve. @throws ServerError when a port is taken; Error when a process ends before it serves */
export async function startSupervisor(options: ServerOptions, log: Logger): Promise<Supervisor> {
  await expectFree(options, placesOf(options));
  const slots = Array.from({ length: options.workerCount }, (_, i) => new WorkerSlot(i + 1, log));
  const metrics = await openMetrics(options, slots, log);
  try {
    // The first one alone: a model that cannot load is reported once.
    await slots[0]?.start();
    await Promise.all(slots.slice(1).map((slot) => slot.start()));
  } catch (error) {
    for (const slot of slots) slot.kill();
    await metrics?.close({ graceMs: 0 });
    throw error;
  }
  log.info("server", `${options.workerCount} workers serve: processes ${slots.map(({ pid }) => pid).join(", ")}`);
  const roller = new Roller(slots, log);
  return {
    roll: () => roller.roll(),
    hurry() {
      for (const slot of slots) slot.hurry();
    },
    async stop() {
      roller.stop();
      await Promise.all(slots.map((slot) => slot.stop()));
      await metrics?.close({ graceMs: 0 });
      return Math.max(...slots.map(({ exitCode }) => exitCode));
    },
  };
}

/** Rolling restarts: at most one at a time, and one more when it was asked for meanwhile. */
class Roller {
  readonly #slots: readonly WorkerSlot[];
  readonly #log: Logger;
  #isRolling = false;
  #isAskedAgain = false;
  #isStopped = false;

  constructor(slots: readonly WorkerSlot[], log: Logger) {
    this.#slots = slots;
    this.#log = log;
  }

  roll(): void {
    this.#isAskedAgain = this.#isRolling;
    if (!this.#isRolling) void this.#run();
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #run(): Promise<void> {
    this.#isRolling = true;
    do {
      this.#isAskedAgain = false;
      await this.#replaceAll();
    } while (this.#isAskedAgain && !this.#isStopped);
    this.#isRolling = false;
  }

  async #replaceAll(): Promise<void> {
    this.#log.info("server", `Rolling restart of ${this.#slots.length} workers`);
    for (const slot of this.#slots) {
      if (this.#isStopped) return;
      const before = slot.pid;
      try {
        await slot.replace();
      } catch (error) {
        const kept = `worker ${slot.number} was not replaced, and process ${before} serves on`;
        this.#log.error("server", `Rolling restart given up: ${kept}: ${String(error)}`);
        return;
      }
      this.#log.info("server", `worker ${slot.number}: process ${slot.pid} took over from ${before}`);
    }
    this.#log.info("server", "Rolling restart done");
  }
}

async function openMetrics(
  options: ServerOptions,
  slots: readonly WorkerSlot[],
  log: Logger,
): Promise<MetricsFrontend | undefined> {
  if (!options.metrics.isEnabled) return undefined;
  const { address, port } = options.metrics;
  const render = async (): Promise<string> => {
    const pages = await Promise.all(slots.map(async ({ number }, i) => [number, await slots[i]?.scrape()] as const));
    const answered = pages.flatMap(([number, page]): WorkerPage[] => (page === undefined ? [] : [[number, page]]));
    return mergePages(answered, slots.length);
  };
  const frontend = createMetricsFrontend({ render, address, port, log, cors: metricsCors(options) });
  const place: ListeningPlace = { protocol: "metrics", endpoint: options.metrics };
  const bound = await frontend.listen().catch((error: unknown) => {
    throw listenError(place, error);
  });
  log.info("metrics_server", `Started Metrics Service at ${placeOf({ ...options.metrics, port: bound.port })}`);
  return frontend;
}

function placesOf({ http, grpc, openai, sagemaker, vertex, metrics }: ServerOptions): readonly ListeningPlace[] {
  const isOnePort = http.isEnabled && http.isOnePort;
  const all: readonly ListeningPlace[] = [
    { protocol: "http", endpoint: http },
    { protocol: "grpc", endpoint: { ...grpc, isEnabled: grpc.isEnabled && !isOnePort } },
    {
      protocol: "openai",
      endpoint: {
        address: http.address,
        port: openai.port ?? 0,
        isEnabled: openai.isEnabled && openai.port !== undefined,
      },
    },
    { protocol: "sagemaker", endpoint: sagemaker },
    { protocol: "vertex_ai", endpoint: vertex },
    { protocol: "metrics", endpoint: metrics },
  ];
  return all.filter(({ endpoint }) => endpoint.isEnabled);
}
