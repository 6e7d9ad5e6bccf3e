/** A load test of V2 inference: prepares the requests, measures each load, and collects the results. */
import { availableParallelism } from "node:os";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import type { InferEncoding, InferSpec, ParameterValue } from "../input/infer-encoding.ts";
import { type InputOptions, inferInputs } from "../input/infer-inputs.ts";
import type { ThreadPlan } from "../load/load-messages.ts";
import type { ArrivalSchedule } from "../plan/arrivals.ts";
import type { SequencePlan } from "../plan/sequences.ts";
import { createGrpcApi } from "../target/grpc-api.ts";
import { createHttpApi } from "../target/http-api.ts";
import type { ModelFacts, ServerApi } from "../target/server-api.ts";
import type { Target } from "../target/target.ts";
import { type Load, LoadGenerator } from "./load-generator.ts";
import { type LevelResult, type MeasureOptions, measureLevel } from "./measure-level.ts";
import { shareTensors } from "./shared-inputs.ts";

export interface InferOptions {
  readonly model: string;
  readonly version: string;
  readonly protocol: "http" | "grpc";
  readonly isStreaming: boolean;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly inputs: InputOptions;
  readonly parameters: Readonly<Record<string, ParameterValue>>;
  readonly isBinaryInput: boolean;
  readonly isBinaryOutput: boolean;
  readonly usesSharedMemory: boolean;
  readonly outputMemoryBytes: number;
  readonly sequences: SequencePlan;
  readonly maxThreads: number | undefined;
  readonly measure: MeasureOptions;
}

/** One load to measure: its figure, and what it is for the generator. */
export interface Level {
  readonly value: number;
  readonly kind: LevelResult["kind"];
  readonly load: Load;
}

const MAX_DEFAULT_THREADS = 4;
/** As many as Triton's client libraries put on a channel. */
const CALLS_PER_CONNECTION = 6;

/** A server with its requests prepared. */
export class InferTarget implements AsyncDisposable {
  readonly generator: LoadGenerator;
  readonly #api: ServerApi;
  readonly #options: InferOptions;
  readonly #release: () => Promise<void>;

  private constructor(api: ServerApi, options: InferOptions, generator: LoadGenerator, release: () => Promise<void>) {
    this.#api = api;
    this.#options = options;
    this.generator = generator;
    this.#release = release;
  }

  /** `maxClients`: of all loads that will be asked for; undefined: not known. */
  static async open(target: Target, options: InferOptions, maxClients: number | undefined): Promise<InferTarget> {
    const headers = Object.fromEntries(options.headers);
    const api =
      options.protocol === "grpc"
        ? createGrpcApi(target.address, options.headers)
        : createHttpApi(target.base, headers);
    const facts = await api.modelFacts(options.model, options.version);
    if (facts.isDecoupled && !options.isStreaming) {
      const fix = "Add -i grpc --streaming, or --endpoint-type generate_stream";
      throw new ToolError(`model '${options.model}' is decoupled: one request has many responses`, { fix });
    }
    const { specs, release } = await requestsOf(api, facts, options);
    const cores = Math.min(availableParallelism(), MAX_DEFAULT_THREADS);
    const numThreads = Math.min(options.maxThreads ?? cores, maxClients ?? Number.POSITIVE_INFINITY);
    const generator = new LoadGenerator(threadPlan(target, facts, specs, options), numThreads);
    await generator.ready();
    return new InferTarget(api, options, generator, release);
  }

  measure({ load, value, kind }: Level, reporter: Reporter, signal: AbortSignal): Promise<LevelResult> {
    const { measure, inputs, model, version } = this.#options;
    const progress = reporter.startTask({ task: `${kind} ${value}`, unit: "requests" });
    const asked = { load, value, kind, batchSize: inputs.batchSize };
    const readStatistics = (): ReturnType<ServerApi["statistics"]> => this.#api.statistics(model, version);
    const measured = { generator: this.generator, readStatistics };
    return measureLevel(measured, asked, measure, progress, signal).finally(() => progress.end());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.generator[Symbol.asyncDispose]();
    await this.#release();
    this.#api.close();
  }
}

async function requestsOf(
  api: ServerApi,
  facts: ModelFacts,
  options: InferOptions,
): Promise<{ readonly specs: readonly InferSpec[]; readonly release: () => Promise<void> }> {
  const made = inferInputs(facts, options.inputs);
  const { model, version } = options;
  const parameters = facts.isDecoupled
    ? { ...options.parameters, triton_enable_empty_final_response: true }
    : options.parameters;
  if (!options.usesSharedMemory) {
    const outputs = facts.outputs.map(({ name }) => ({ name }));
    return {
      specs: made.map((inputs) => ({ model, version, inputs, outputs, parameters })),
      release: async () => undefined,
    };
  }
  const shared = await shareTensors(api, facts, [...made], options.inputs.batchSize, options.outputMemoryBytes);
  const specs = shared.inputs.map((inputs) => ({ model, version, inputs, outputs: shared.outputs, parameters }));
  return { specs, release: shared.release };
}

function threadPlan(
  target: Target,
  facts: ModelFacts,
  specs: readonly InferSpec[],
  options: InferOptions,
): Omit<ThreadPlan, "index" | "count"> {
  const { protocol, isStreaming, headers, isBinaryInput, isBinaryOutput } = options;
  const { hostHeader: host, prefix } = target;
  const encoding: InferEncoding =
    protocol === "grpc" ? { kind: "grpc" } : { kind: "http", host, prefix, isBinaryInput, isBinaryOutput, headers };
  return {
    address: target.address,
    transport: protocol === "http" ? "http" : isStreaming ? "grpc-stream" : "grpc",
    metadata: headers,
    callsPerConnection: CALLS_PER_CONNECTION,
    requests: { kind: "infer", specs, encoding, sequences: facts.isSequence ? options.sequences : undefined },
    keepsParts: false,
    isDecoupled: facts.isDecoupled,
  };
}

export function concurrencyLevel(clients: number): Level {
  return { value: clients, kind: "concurrency", load: { kind: "concurrency", clients } };
}

export function scheduleLevel(schedule: ArrivalSchedule, value: number, kind: LevelResult["kind"]): Level {
  return { value, kind, load: { kind: "schedule", schedule } };
}
