/** A sequence batcher with instances that show what they were given, for tests. */
import type { Batch, ModelInstance } from "../../server/src/backend/backend.ts";
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { ModelConfig, ModelSequenceBatching } from "../../server/src/core/model-config.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { SequenceFeed } from "../../server/src/scheduler/sequence/feed.ts";
import { SequenceScheduler } from "../../server/src/scheduler/sequence/sequence-scheduler.ts";
import type { StartHold } from "../../server/src/scheduler/start-hold.ts";
import { fakeConfig, fakeInput, fakeOutput } from "./model-config.ts";
import { collect, fakeRequest, int32, int32Values } from "./requests.ts";

const NO_LISTS = { int32_false_true: [], fp32_false_true: [], bool_false_true: [] };

export const FLAG = { ...NO_LISTS, int32_false_true: [0, 1], data_type: "TYPE_INVALID" } as const;

export const OLDEST = {
  max_candidate_sequences: 0,
  preferred_batch_size: [],
  max_queue_delay_microseconds: 0,
  preserve_ordering: false,
};

export function fakeSequenceBatching(changes: Partial<ModelSequenceBatching> = {}): ModelSequenceBatching {
  return {
    max_sequence_idle_microseconds: 60_000_000,
    control_input: [
      { name: "START", control: [{ kind: "CONTROL_SEQUENCE_START", ...FLAG }] },
      { name: "END", control: [{ kind: "CONTROL_SEQUENCE_END", ...FLAG }] },
      { name: "READY", control: [{ kind: "CONTROL_SEQUENCE_READY", ...FLAG }] },
      { name: "CORRID", control: [{ kind: "CONTROL_SEQUENCE_CORRID", ...NO_LISTS, data_type: "TYPE_UINT64" }] },
    ],
    state: [],
    iterative_sequence: false,
    ...changes,
  };
}

/** X (INT32 [1]) in, Y out, up to four rows. */
export function fakeSequenceConfig(
  batching: Partial<ModelSequenceBatching> = {},
  changes: Partial<ModelConfig> = {},
): ModelConfig {
  return fakeConfig({
    max_batch_size: 4,
    input: [fakeInput("X", [1])],
    output: [fakeOutput("Y", [1])],
    sequence_batching: fakeSequenceBatching(batching),
    ...changes,
  });
}

/** "<id>:<flags><value>", for example "7:S5" for the first request of sequence 7; "-" for a row without a request. */
export function rowText({ inputs }: InferRequest): string {
  const tensor = (name: string): Tensor | undefined => inputs.find((input) => input.name === name);
  const isSet = (name: string): boolean => int32Values(tensor(name))[0] === 1;
  if (!isSet("READY")) return "-";
  const id = new BigUint64Array(tensor("CORRID")?.data.slice().buffer ?? new ArrayBuffer(8))[0];
  return `${id}:${isSet("START") ? "S" : ""}${isSet("END") ? "E" : ""}${int32Values(tensor("X"))[0]}`;
}

/** Echoes X as Y when the test lets a batch go; keeps what it was given. */
export class GatedInstance implements ModelInstance {
  readonly name: string;
  readonly batches: string[][] = [];
  readonly #gates: (() => void)[] = [];

  constructor(name = "m_0") {
    this.name = name;
  }

  execute(batch: Batch): Promise<void> {
    this.batches.push(batch.requests.map(({ request }) => rowText(request)));
    return new Promise((resolve) => {
      this.#gates.push(() => {
        for (const request of batch.requests) {
          request.respond({ outputs: [{ ...(request.request.inputs[0] as Tensor), name: "Y" }], final: true });
        }
        resolve();
      });
    });
  }

  /** Lets the batch go that runs, and waits until the next one has begun, if there is one. */
  async open(): Promise<void> {
    this.#gates.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

/** Never tells a request from another: each gets its own X back at once. */
export class EchoInstance extends GatedInstance {
  override execute(batch: Batch): Promise<void> {
    const running = super.execute(batch);
    void this.open();
    return running;
  }
}

export interface SequenceFlags {
  readonly start?: boolean;
  readonly end?: boolean;
  readonly timeoutUs?: number;
  readonly signal?: AbortSignal;
  readonly inputs?: readonly Tensor[];
  readonly outputs?: readonly string[];
}

export interface SequenceSetUp {
  readonly scheduler: SequenceScheduler;
  readonly statistics: StatisticsCounter;
  readonly warnings: string[];
  send(id: bigint | string, value: number, flags?: SequenceFlags): ScheduledRequest;
}

export function setUpSequences(
  config: ModelConfig,
  instances: readonly ModelInstance[],
  files: ReadonlyMap<string, Uint8Array> = new Map(),
  hold?: StartHold,
): SequenceSetUp {
  const batching = config.sequence_batching ?? fakeSequenceBatching();
  const warnings: string[] = [];
  const log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });
  log.warn = (_source, text) => warnings.push(text);
  const statistics = new StatisticsCounter();
  const signature = signatureOf(config);
  const feed = new SequenceFeed(config, files);
  const scheduler = new SequenceScheduler({ config, batching, feed, signature, instances, statistics, log, hold });
  const decoupled = config.model_transaction_policy?.decoupled ?? false;
  const context = { signature, version: "1", statistics, decoupled, reshapesOutputs: false };
  const shape = config.max_batch_size > 0 ? [1, 1] : [1];
  return {
    scheduler,
    statistics,
    warnings,
    send(id, value, { start = false, end = false, inputs = [int32("X", shape, [value])], ...rest } = {}) {
      const request = fakeRequest(inputs, { sequence: { id, start, end }, ...rest });
      const scheduled = new ScheduledRequest(request, 1, context);
      scheduler.enqueue(scheduled);
      return scheduled;
    },
  };
}

/** The first Y of each request, or the text of its error. */
export async function answers(requests: readonly ScheduledRequest[]): Promise<(number | string)[]> {
  const ends = await Promise.allSettled(requests.map(({ stream }) => collect(stream)));
  return ends.map((end) =>
    end.status === "fulfilled"
      ? (int32Values(end.value[0]?.outputs[0])[0] ?? -1)
      : ServerError.from(end.reason).message,
  );
}
