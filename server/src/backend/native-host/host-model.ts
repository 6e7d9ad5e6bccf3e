/**
 * A model version in a host process of its own, with all of its instances. When the process dies, the requests that it had
 * fail once with the cause, and another one starts with the same instances.
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { ServerError } from "../../core/server-error.ts";
import type { BackendMetrics, BackendModel, Batch, InstanceSpec, ModelInstance } from "../backend.ts";
import type { CustomMetrics } from "../python/custom-metrics.ts";
import { encodeCancel, encodeCredit, encodeFinalize } from "../python/messages.ts";
import { OwnedMetrics } from "../python/owned-metrics.ts";
import type { Questions } from "../python/questions.ts";
import type { StubLaunch, StubProcess } from "../python/stub-process.ts";
import type { FrameReader } from "../python/wire-codec.ts";
import { Restarting } from "../supervision/restarting.ts";
import { HostInstance, type InstanceHost } from "./host-instance.ts";
import { HostRequests } from "./host-requests.ts";
import { HostSteps } from "./host-steps.ts";
import { encodeCloseInstance, encodeExecute, encodeInstance, type LoadMessage, monotonicOriginMs } from "./messages.ts";
import { startHost } from "./start-host.ts";
import { takeMessage } from "./take-message.ts";

/** How long a backend may take to finalize an instance or a model. */
const FINALIZE_MS = 30_000;

export interface HostModelOptions {
  readonly launch: StubLaunch;
  readonly load: LoadMessage;
  readonly questions: Questions;
  readonly customMetrics: CustomMetrics;
  readonly metricsPage: BackendMetrics;
}

export class HostModel implements BackendModel, InstanceHost {
  readonly #options: HostModelOptions;
  readonly #requests: HostRequests;
  readonly #instances = new Map<number, HostInstance>();
  readonly #steps = new HostSteps();
  readonly #process: Restarting<StubProcess>;
  /** Metrics of the current process, or of the last one. */
  #metrics: OwnedMetrics | undefined;
  #nextInstance = 1;
  /** The process has completed a batch, so its model is sound. */
  #hasServed = false;
  /** The configuration as the backend has left it. */
  configJson = "";

  constructor(options: HostModelOptions) {
    this.#options = options;
    const { launch, load } = options;
    this.#requests = new HostRequests(load.decoupled, {
      cancelled: (key) => this.#process.current?.send(encodeCancel(key)),
      credited: (key, count) => this.#process.current?.send(encodeCredit(key, count)),
    });
    this.#process = new Restarting({
      start: (signal) => this.#startProcess(signal),
      failed: (cause, delayMs) => {
        const text = `${this.#unhealthy(cause).message}; ${this.#requests.size} requests failed, restarting in ${delayMs} ms`;
        launch.log.error(launch.logLocation, text);
      },
      restarted: () => launch.log.info(launch.logLocation, `Backend host '${launch.name}' runs again`),
    });
  }

  /** @throws ServerError with the backend's own words, or the cause of the death */
  start(): Promise<void> {
    return this.#process.start();
  }

  async createInstance(spec: InstanceSpec): Promise<ModelInstance> {
    const host = this.#process.current;
    if (host === undefined) throw this.#unhealthy("");
    const instance = new HostInstance(this.#nextInstance, spec, this);
    this.#nextInstance += 1;
    await this.#initialize(host, instance);
    this.#instances.set(instance.number, instance);
    return instance;
  }

  isReady(): boolean {
    return this.#process.current !== undefined;
  }

  async send(instance: HostInstance, batchId: number, batch: Batch): Promise<void> {
    const host = this.#process.current ?? (await this.#process.soon());
    if (host === undefined) throw this.#unhealthy("");
    const keys = batch.requests.map((request) => this.#requests.add(request));
    try {
      host.send(encodeExecute(instance.number, batchId, batch.requests, keys, host.blocks));
    } catch (error) {
      this.#requests.release(keys); // the message would be too large: the host has seen none of them
      throw error;
    }
  }

  async close(instance?: HostInstance): Promise<void> {
    if (instance !== undefined) return this.#closeInstance(instance);
    const host = await this.#process.close();
    if (host !== undefined) {
      host.send(encodeFinalize());
      const timer = setTimeout(() => host.kill(`It did not finalize within ${FINALIZE_MS} ms`), FINALIZE_MS);
      await host.ended;
      clearTimeout(timer);
    }
    this.#metrics?.[Symbol.dispose]();
  }

  async #startProcess(signal: AbortSignal): Promise<StubProcess> {
    const { launch, load, customMetrics, metricsPage } = this.#options;
    const metrics = new OwnedMetrics(customMetrics, metricsPage);
    const listener = {
      message: (kind: number, reader: FrameReader, host: StubProcess): void => this.#take(kind, reader, host, metrics),
      ended: (cause: string): void => this.#died(cause),
    };
    try {
      const { host, configJson } = await startHost(launch, load, listener, signal);
      this.configJson = configJson;
      await this.#initializeAll(host);
      if (signal.aborted) host.kill("The model is being unloaded");
      if (signal.aborted || !host.isAlive) throw this.#unhealthy("It ended as soon as its model was loaded");
      // Series of a process that died stay until the next one has made its own.
      this.#metrics?.[Symbol.dispose]();
      this.#metrics = metrics;
      return host;
    } catch (error) {
      metrics[Symbol.dispose]();
      throw error;
    }
  }

  async #initializeAll(host: StubProcess): Promise<void> {
    try {
      await Promise.all([...this.#instances.values()].map((instance) => this.#initialize(host, instance)));
    } catch (error) {
      host.kill("An instance could not be initialized");
      throw error;
    }
  }

  async #initialize(host: StubProcess, { number, spec }: HostInstance): Promise<void> {
    const done = this.#steps.await("initialize", number);
    host.send(encodeInstance({ number, spec, hostPolicyJson: hostPolicyJson(spec), profiles: [] }));
    await done;
  }

  async #closeInstance({ number }: HostInstance): Promise<void> {
    this.#instances.delete(number);
    const host = this.#process.current;
    if (host === undefined) return;
    const done = this.#steps.await("close", number).catch(() => undefined);
    host.send(encodeCloseInstance(number));
    const giveUp = new AbortController();
    const late = sleep(FINALIZE_MS, undefined, { signal: giveUp.signal }).catch(() => undefined);
    await Promise.race([done, late]);
    giveUp.abort();
  }

  #take(kind: number, reader: FrameReader, host: StubProcess, metrics: OwnedMetrics): void {
    const { launch, questions } = this.#options;
    takeMessage(kind, reader, {
      host,
      metrics,
      questions,
      log: launch.log,
      requests: this.#requests,
      steps: this.#steps,
      originMs: monotonicOriginMs(performance.now(), process.hrtime.bigint()),
      executed: (number, message) => {
        this.#hasServed = true;
        const instance = this.#instances.get(number);
        if (instance === undefined) throw new RangeError(`there is no instance ${number}`);
        instance.executed(message);
      },
    });
  }

  #died(cause: string): void {
    const { isClosed } = this.#process;
    this.#process.ended(cause, this.#hasServed);
    this.#hasServed = false;
    const error = isClosed
      ? new ServerError("unavailable", `Model '${this.#options.launch.name}' is unloaded`)
      : this.#unhealthy(cause);
    this.#steps.failAll(error);
    this.#requests.failAll(error);
    this.#requests.forget();
    for (const instance of this.#instances.values()) instance.fail(error);
  }

  #unhealthy(cause: string): ServerError {
    const text = `Backend host '${this.#options.launch.name}' is not healthy.`;
    return new ServerError("internal", cause === "" ? text : `${text} ${cause}`, { reason: "BACKEND" });
  }
}

/** Policies have no settings here; backends read the name alone. Source: core, backend_model_instance.cc, `CreateInstances`. */
function hostPolicyJson({ kind, deviceId }: InstanceSpec): string {
  const names = { KIND_CPU: "cpu", KIND_GPU: `gpu_${deviceId}`, KIND_MODEL: "model" };
  return JSON.stringify({ [names[kind]]: {} });
}
