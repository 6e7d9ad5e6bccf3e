/** Plays steady traffic on a dynamic batcher with a short delay: clients that wait for each response, and random arrivals. */
import type { ModelDynamicBatching } from "../../server/src/core/model-config.ts";
import { fakeConfig, fakeInput, fakeOutput } from "../fakes/model-config.ts";
import { collect } from "../fakes/requests.ts";
import type { Random } from "../support/random.ts";
import { dynamicBatching, senderOf, timedInstance } from "./timeline.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const DELAY_MS = 0.5;

export interface Traffic {
  /** The model parameter `adaptive_batching_delay`. */
  readonly isAdaptive: boolean;
  /** Time of one execution; 0 = synchronous. */
  readonly runMs: number;
  readonly batching?: Partial<ModelDynamicBatching>;
  /** Sends once at each of these times. */
  readonly arrivalsMs?: readonly number[];
  readonly clients?: readonly ClosedLoop[];
  readonly untilMs: number;
}

/** A client that sends its next request some time after its response. */
export interface ClosedLoop {
  readonly fromMs: number;
  readonly thinkMs: () => number;
}

export interface Execution {
  readonly atMs: number;
  /** How long each of its requests had waited. */
  readonly waitsMs: readonly number[];
}

/** The executions, first started first. */
export async function playTraffic(traffic: Traffic): Promise<readonly Execution[]> {
  const { isAdaptive, runMs, arrivalsMs = [], clients = [], untilMs, batching } = traffic;
  const clock = new VirtualClock();
  const executions: Execution[] = [];
  const config = fakeConfig({
    max_batch_size: 64,
    input: [fakeInput("X", [-1])],
    output: [fakeOutput("Y", [-1])],
    dynamic_batching: dynamicBatching({
      preferred_batch_size: [64],
      max_queue_delay_microseconds: DELAY_MS * 1000,
      ...batching,
    }),
    parameters: { adaptive_batching_delay: { string_value: String(isAdaptive) } },
  });
  const instance = timedInstance(clock, ({ requests }) => {
    const atMs = clock.nowMs();
    executions.push({ atMs, waitsMs: requests.map(({ request }) => atMs - request.arrivalMs) });
    return runMs;
  });
  const send = senderOf(config, [instance], clock);
  const ask = ({ thinkMs }: ClosedLoop): void => {
    if (clock.nowMs() > untilMs) return;
    void collect(send("", { atMs: 0 }).stream).then(() => clock.after(thinkMs(), () => ask({ fromMs: 0, thinkMs })));
  };
  for (const client of clients) clock.after(client.fromMs, () => ask(client));
  for (const atMs of arrivalsMs) clock.after(atMs, () => void collect(send("", { atMs }).stream));
  while (clock.step()) await new Promise<void>((resolve) => process.nextTick(resolve));
  return executions;
}

/** Arrivals without memory. */
export function randomArrivals(random: Random, perMs: number, count: number): number[] {
  let atMs = 0;
  return Array.from({ length: count }, () => {
    atMs -= Math.log(1 - random.next()) / perMs;
    return atMs;
  });
}
