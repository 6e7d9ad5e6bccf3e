/**
 * Plays requests that arrive at given times on a sequence batcher: which rows run when and where, and how each request
 * ends.
 */
import type { Batch, ModelInstance } from "../../server/src/backend/backend.ts";
import type { ModelInput, ModelSequenceBatching } from "../../server/src/core/model-config.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { type Executor, RateLimiter } from "../../server/src/scheduler/rate-limiter.ts";
import { ResourceLimits } from "../../server/src/scheduler/resource-limits.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { SequenceFeed } from "../../server/src/scheduler/sequence/feed.ts";
import { SequenceScheduler } from "../../server/src/scheduler/sequence/sequence-scheduler.ts";
import { fakeInput } from "../fakes/model-config.ts";
import { collect, fakeRequest, int32, int32Values } from "../fakes/requests.ts";
import { fakeSequenceBatching, fakeSequenceConfig, rowText } from "../fakes/sequences.ts";
import { VirtualClock } from "./virtual-clock.ts";

export interface SequenceArrival {
  readonly atMs: number;
  readonly id: number;
  /** "S" for START, "E" for END, "SE" for both. */
  readonly flags?: string;
  readonly value: number;
  readonly width?: number;
  readonly timeoutMs?: number;
}

export interface SequenceTimelineOptions {
  readonly batching?: Partial<ModelSequenceBatching>;
  readonly maxBatchSize?: number;
  readonly input?: Partial<ModelInput>;
  readonly numInstances?: number;
  readonly runMs?: number;
  /** No instance runs before. */
  readonly holdMs?: number;
  readonly arrivals: readonly SequenceArrival[];
}

export interface SequenceTimeline {
  /** "<ms> <rows>", a row as "<id>:<flags><value>" or "-" where there is none; with several instances its number before. */
  readonly batches: readonly string[];
  /** "<value> <ms> <answer, or the error>", first ended first. */
  readonly ends: readonly string[];
}

/** The requests of a sequence, all at once: the first is its START and the last its END. */
export function wholeSequence(
  id: number,
  values: readonly number[],
  more: Partial<SequenceArrival> = {},
): SequenceArrival[] {
  return values.map((value, i) => {
    const flags = `${i === 0 ? "S" : ""}${i === values.length - 1 ? "E" : ""}`;
    return { atMs: 0, id, value, flags, ...more };
  });
}

export async function playSequences(options: SequenceTimelineOptions): Promise<SequenceTimeline> {
  const { arrivals, batching = {}, maxBatchSize = 4, input = {}, numInstances = 1, runMs = 0, holdMs = 0 } = options;
  const clock = new VirtualClock();
  const batches: string[] = [];
  const ends: string[] = [];
  const config = fakeSequenceConfig(batching, { max_batch_size: maxBatchSize, input: [fakeInput("X", [-1], input)] });
  const seen = (instance: number, batch: Batch): void => {
    const rows = batch.requests.map(({ request }) => rowText(request)).join(" ");
    batches.push(`${round(clock.nowMs())} ${numInstances > 1 ? `${instance}: ` : ""}${rows}`);
  };
  const instances = Array.from({ length: numInstances }, (_, i) =>
    timedInstance(clock, runMs, (batch) => seen(i, batch)),
  );
  const statistics = new StatisticsCounter();
  const signature = signatureOf(config);
  const scheduler = new SequenceScheduler({
    config,
    batching: config.sequence_batching ?? fakeSequenceBatching(),
    feed: new SequenceFeed(config, new Map()),
    signature,
    instances,
    statistics,
    log: new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_warning: false, log_error: false }),
    limits: holdMs > 0 ? heldUntil(clock, holdMs) : undefined,
    clock,
  });
  const context = { signature, version: "1", statistics, decoupled: false, reshapesOutputs: false, clock };
  const send = ({ id, flags = "", value, width = 1, timeoutMs = 0 }: SequenceArrival): ScheduledRequest => {
    const x = int32("X", maxBatchSize > 0 ? [1, width] : [width], new Array<number>(width).fill(value));
    const sequence = { id: BigInt(id), start: flags.includes("S"), end: flags.includes("E") };
    const request = fakeRequest([x], { sequence, timeoutUs: timeoutMs * 1000, arrivalMs: clock.nowMs() });
    const scheduled = new ScheduledRequest(request, 1, context);
    scheduler.enqueue(scheduled);
    return scheduled;
  };
  for (const arrival of arrivals) {
    clock.after(arrival.atMs, () => {
      const ended = (how: unknown): void => void ends.push(`${arrival.value} ${round(clock.nowMs())} ${how}`);
      try {
        collect(send(arrival).stream).then(
          ([response]) => ended(int32Values(response?.outputs[0])[0]),
          (error: unknown) => ended(ServerError.from(error).message),
        );
      } catch (error) {
        ended(ServerError.from(error).message);
      }
    });
  }
  while (clock.step()) await new Promise<void>((resolve) => process.nextTick(resolve));
  return { batches, ends };
}

function timedInstance(clock: VirtualClock, runMs: number, seen: (batch: Batch) => void): ModelInstance {
  return {
    name: "timed",
    execute: (batch) => {
      seen(batch);
      const end = (): void => {
        for (const one of batch.requests) {
          one.respond({ outputs: one.request.inputs.slice(0, 1).map((x) => ({ ...x, name: "Y" })), final: true });
        }
      };
      if (runMs > 0) return new Promise((resolve) => clock.after(runMs, () => resolve(end())));
      end();
      return undefined;
    },
    isReady: () => true,
    close: () => Promise.resolve(),
  };
}

/** Somebody else has what all instances need, until then. */
function heldUntil(clock: VirtualClock, holdMs: number) {
  const limiter = new RateLimiter(new ResourceLimits([{ name: "R", count: 100, device: -1 }]));
  const holder: Executor = { needs: [{ name: "R", count: 100, device: 0 }], priority: 0 };
  const byInstance = new Map<ModelInstance, Executor>();
  limiter.register([holder]);
  limiter.request(holder, () => undefined);
  clock.after(holdMs, () => limiter.giveBack(holder, true));
  const executorOf = (instance: ModelInstance): Executor => {
    const executor = byInstance.get(instance) ?? { needs: [{ name: "R", count: 1, device: 0 }], priority: 0 };
    if (!byInstance.has(instance)) limiter.register([executor]);
    byInstance.set(instance, executor);
    return executor;
  };
  return { limiter, executorOf };
}

/** The turn of the event loop in which requests gather takes a microsecond here. */
function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
