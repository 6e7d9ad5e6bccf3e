/** One loaded version of a model: its scheduler, instances, statistics, and the interface for front ends. */
import type { BackendModel, ModelInstance } from "../backend/backend.ts";
import { type InferRequest, type RequestOrigin, withInputs } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ModelConfig } from "../core/model-config.ts";
import type { ModelFolders, ServedModel, TensorMetadata } from "../core/model-server.ts";
import { type ModelSignature, tensorMetadata } from "../core/model-signature.ts";
import type { Tensor } from "../core/tensor.ts";
import { validateRequest } from "../core/validate-request.ts";
import type { Logger } from "../observe/log.ts";
import { describePrepared } from "../scheduler/describe-request.ts";
import type { ExecutionTiming } from "../scheduler/execution-timing.ts";
import type { StatisticsCounter } from "../scheduler/model-statistics.ts";
import { type RequestContext, ScheduledRequest } from "../scheduler/scheduled-request.ts";
import type { LeavingInstance, Scheduler } from "../scheduler/scheduler.ts";
import { BackendLog } from "./load/backend-log.ts";
import type { LimitedInstances } from "./load/instance-limits.ts";

export interface ModelVersionParts {
  /** Repository of the model; "" without namespacing. */
  readonly namespace: string;
  readonly config: ModelConfig;
  readonly version: number;
  readonly signature: ModelSignature;
  readonly decoupled: boolean;
  readonly labels: ReadonlyMap<string, readonly string[]>;
  readonly folders: ModelFolders;
  readonly statistics: StatisticsCounter;
  readonly scheduler: Scheduler;
  readonly instances: readonly ModelInstance[];
  /** Undefined for an ensemble. */
  readonly model: BackendModel | undefined;
  readonly log: Logger;
  readonly loadSeconds: number;
  /** Cache generation: differs per load of the version, or per content of its files. */
  readonly generation: () => string;
  /** Called when the version is closed. */
  readonly onClosed?: (() => void) | undefined;
  /** The instances as a rate limiter knows them; absent without one. */
  readonly limits?: LimitedInstances | undefined;
}

export class ModelVersion implements ServedModel {
  readonly name: string;
  readonly namespace: string;
  readonly version: string;
  readonly decoupled: boolean;
  readonly folders: ModelFolders;
  readonly inputs: ReadonlyMap<string, TensorMetadata>;
  readonly outputs: ReadonlyMap<string, TensorMetadata>;
  readonly signature: ModelSignature;
  readonly statistics: StatisticsCounter;
  readonly loadSeconds: number;
  readonly #parts: ModelVersionParts;
  readonly #context: RequestContext;
  #config: ModelConfig;
  #instances: readonly ModelInstance[];
  /** Settles when all removed instances are closed. */
  #resizing: Promise<unknown> = Promise.resolve();

  constructor(parts: ModelVersionParts) {
    const { config, signature } = parts;
    this.#parts = parts;
    this.name = config.name;
    this.namespace = parts.namespace;
    this.version = String(parts.version);
    this.#config = config;
    this.#instances = parts.instances;
    this.decoupled = parts.decoupled;
    this.folders = parts.folders;
    this.signature = signature;
    this.statistics = parts.statistics;
    this.loadSeconds = parts.loadSeconds;
    const { maxBatchSize } = signature;
    this.inputs = new Map([...signature.inputs.values()].map((t) => [t.name, tensorMetadata(t, maxBatchSize)]));
    this.outputs = new Map([...signature.outputs.values()].map((t) => [t.name, tensorMetadata(t, maxBatchSize)]));
    this.#context = requestContext(parts);
  }

  get config(): ModelConfig {
    return this.#config;
  }

  /** In the order of the configuration's groups. */
  get instances(): readonly ModelInstance[] {
    return this.#instances;
  }

  get log(): Logger {
    return this.#parts.log;
  }

  /** Undefined for an ensemble. */
  get model(): BackendModel | undefined {
    return this.#parts.model;
  }

  /** True when instances can be added and removed while requests run. */
  get isResizable(): boolean {
    return this.#parts.scheduler.resize !== undefined;
  }

  /** Replaces the instances by those of `config`; closes removed ones when they become idle. */
  async resize(config: ModelConfig, instances: readonly ModelInstance[]): Promise<void> {
    this.#config = config;
    this.#instances = instances;
    const leaving = this.#parts.scheduler.resize?.(instances) ?? [];
    const closed = Promise.all(leaving.map((one) => this.#closeLeaving(one)));
    this.#resizing = Promise.allSettled([this.#resizing, closed]);
    await closed;
  }

  async #closeLeaving({ instance, idle }: LeavingInstance): Promise<void> {
    await idle;
    this.#parts.limits?.remove(instance);
    await instance.close();
  }

  /** Undefined without a rate limiter. */
  get limits(): LimitedInstances | undefined {
    return this.#parts.limits;
  }

  generation(): string {
    return this.#parts.generation();
  }

  /** Requests accepted and not ended. */
  get inFlight(): number {
    return this.#parts.scheduler.inFlight;
  }

  get labels(): ReadonlyMap<string, readonly string[]> {
    return this.#parts.labels;
  }

  label(output: string, index: number): string | undefined {
    return this.#parts.labels.get(output)?.[index];
  }

  infer(request: InferRequest): AsyncIterable<InferResponse> {
    return this.submit(request);
  }

  /** As `infer`; `onTiming` receives the duration of the execution, once, before the final response is read. */
  submit(
    request: InferRequest,
    onTiming?: (timing: ExecutionTiming, queueMs: number) => void,
  ): AsyncIterable<InferResponse> {
    const { inputs, batchSize } = validateRequest(request, this.signature);
    const { log } = this.#parts;
    log.verbose(2, "infer_request", () =>
      describePrepared({
        original: request,
        inputs,
        version: this.version,
        batchSize: this.signature.maxBatchSize > 0 ? batchSize : 0,
        outputNames: request.outputs.length > 0 ? request.outputs : this.signature.outputNames,
      }),
    );
    const checked = inputs === request.inputs ? request : withInputs(request, inputs);
    const { trace } = checked;
    if (trace !== undefined) trace.begin(this.version, checked.id, performance.now());
    const scheduled = new ScheduledRequest(checked, batchSize, this.#context, onTiming);
    this.#parts.scheduler.enqueue(scheduled);
    return scheduled.stream;
  }

  /** As `Scheduler.runNow`. */
  runNow(
    inputs: readonly Tensor[],
    origin: RequestOrigin,
    onTiming: (timing: ExecutionTiming) => void,
  ): readonly Tensor[] | undefined {
    return this.#parts.scheduler.runNow?.(inputs, origin, onTiming);
  }

  /** False while an instance is down. */
  isHealthy(): boolean {
    return this.#instances.every((instance) => instance.isReady());
  }

  /** Asks the model's own readiness check, if it has one. @throws ServerError unavailable with the reason */
  async checkReady(): Promise<void> {
    await Promise.all(this.#instances.map((instance) => instance.checkReady?.()));
  }

  /** Drains accepted requests, then frees everything. New requests are refused from the call on. */
  async close(): Promise<void> {
    await this.#parts.scheduler.drain();
    this.#parts.onClosed?.();
    await this.#resizing;
    const backendLog = new BackendLog(this.#parts.log, this.#config.backend);
    for (const _ of this.#instances) backendLog.instanceFinalized();
    await Promise.all(this.#instances.map((instance) => instance.close()));
    if (this.#parts.model === undefined) return;
    backendLog.modelFinalized();
    await this.#parts.model.close();
  }
}

/** Context shared by the requests of a version. */
export function requestContext(
  parts: Pick<ModelVersionParts, "config" | "signature" | "version" | "statistics" | "decoupled" | "log">,
): RequestContext {
  const { config, signature, statistics, decoupled, log } = parts;
  return {
    log,
    signature,
    version: String(parts.version),
    statistics,
    decoupled,
    isComposed: config.ensemble_scheduling !== undefined,
    reshapesOutputs: [...signature.outputs.values()].some((output) => output.reshape !== undefined),
  };
}
