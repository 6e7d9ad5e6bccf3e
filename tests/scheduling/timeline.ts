/** Plays requests that arrive at given times on a batcher: which batches start when, and how each request ends. */
import type { Batch, ModelInstance } from "../../server/src/backend/backend.ts";
import type { ModelConfig, ModelDynamicBatching, ModelInput } from "../../server/src/core/model-config.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { BatchScheduler } from "../../server/src/scheduler/batch/batch-scheduler.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { fakeConfig, fakeInput, fakeOutput } from "../fakes/model-config.ts";
import { collect, fakeRequest, int32 } from "../fakes/requests.ts";
import { VirtualClock } from "./virtual-clock.ts";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

export interface Arrival {
  readonly atMs: number;
  readonly rows?: number;
  /** Elements of each row. */
  readonly width?: number;
  readonly priority?: number;
  readonly timeoutMs?: number;
  readonly outputs?: readonly string[];
}

export interface TimelineOptions {
  readonly batching: Partial<ModelDynamicBatching>;
  readonly maxBatchSize?: number;
  readonly input?: Partial<ModelInput>;
  readonly numInstances?: number;
  readonly runMs?: number;
  /** The instances do nothing before. */
  readonly holdMs?: number;
  readonly arrivals: readonly Arrival[];
}

export interface Timeline {
  /** "<ms> <letters of the requests>": requests are called a, b, c in the order in which they come. */
  readonly batches: readonly string[];
  /** "<letter> <ms> <outputs, or the error>", first ended first. */
  readonly ends: readonly string[];
}

export function dynamicBatching(changes: Partial<ModelDynamicBatching> = {}): ModelDynamicBatching {
  return {
    preferred_batch_size: [],
    max_queue_delay_microseconds: 0,
    preserve_ordering: false,
    priority_levels: 0,
    default_priority_level: 0,
    priority_queue_policy: {},
    ...changes,
  };
}

export async function playTimeline(options: TimelineOptions): Promise<Timeline> {
  const { arrivals, batching, maxBatchSize = 8, input = {}, numInstances = 1, runMs = 0, holdMs = 0 } = options;
  const clock = new VirtualClock();
  const batches: string[] = [];
  const ends: string[] = [];
  const config = fakeConfig({
    max_batch_size: maxBatchSize,
    input: [fakeInput("X", [-1], input)],
    output: [fakeOutput("Y", [-1]), fakeOutput("Z", [-1])],
    dynamic_batching: dynamicBatching({ preferred_batch_size: [maxBatchSize], ...batching }),
  });
  const seen = (batch: Batch): number => {
    const ids = batch.requests.map(({ request }) => request.id);
    if (ids.includes("")) return holdMs;
    batches.push(`${round(clock.nowMs())} ${ids.join("")}`);
    return runMs;
  };
  const instances = Array.from({ length: numInstances }, () => timedInstance(clock, seen));
  const send = senderOf(config, instances, clock);
  if (holdMs > 0) for (const _ of instances) send("", { atMs: 0, rows: maxBatchSize });
  for (const [i, arrival] of arrivals.entries()) {
    clock.after(arrival.atMs, () => {
      const letter = LETTERS[i] ?? "?";
      const ended = (how: string): void => void ends.push(`${letter} ${round(clock.nowMs())} ${how}`);
      try {
        const { stream } = send(letter, arrival);
        collect(stream).then(
          ([response]) => ended((response?.outputs ?? []).map(({ name }) => name).join("")),
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

/** Sends requests through a scheduler of this model. */
export function senderOf(config: ModelConfig, instances: readonly ModelInstance[], clock: VirtualClock) {
  const signature = signatureOf(config);
  const statistics = new StatisticsCounter();
  const log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });
  const scheduler = new BatchScheduler({ config, signature, instances, statistics, log, clock });
  const context = { signature, version: "1", statistics, decoupled: false, reshapesOutputs: false, clock };
  return (
    id: string,
    { rows = 1, width = 1, priority = 0, timeoutMs = 0, outputs = [] }: Arrival,
  ): ScheduledRequest => {
    const x = int32("X", [rows, width], new Array<number>(rows * width).fill(0));
    const request = fakeRequest([x], { id, priority, timeoutUs: timeoutMs * 1000, outputs, arrivalMs: clock.nowMs() });
    const scheduled = new ScheduledRequest(request, rows, context);
    scheduler.enqueue(scheduled);
    return scheduled;
  };
}

/** Answers after the milliseconds that `seen` says. */
export function timedInstance(clock: VirtualClock, seen: (batch: Batch) => number): ModelInstance {
  return {
    name: "timed",
    execute: (batch) => {
      const runMs = seen(batch);
      const end = (): void => {
        for (const one of batch.requests) {
          const outputs = one.outputNames.map((name) => ({ ...(one.request.inputs[0] ?? int32("X", [], [])), name }));
          one.respond({ outputs, final: true });
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

/** The turn of the event loop in which requests gather takes a microsecond here. */
function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
