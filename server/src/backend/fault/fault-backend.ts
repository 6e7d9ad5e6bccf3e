/**
 * The backend `fault`, for people who test their clients: outputs are the inputs, as in `identity`, and requests meet latency,
 * errors, hangs, crashes and streams that break off, as the parameters of the model say. Requests may ask for faults of their own
 * where the model has `request_faults: true`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Backend, BackendModel, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";
import { createEcho } from "../testing/identity.ts";
import { type FaultSettings, faultOf, faultSettings, settingsOfRequest, streamPlan } from "./fault-settings.ts";
import { seededRandom } from "./seeded-random.ts";

const SEED = "seed";
const REQUEST_FAULTS = "request_faults";

interface FaultModel {
  readonly settings: FaultSettings;
  readonly takesRequestFaults: boolean;
  readonly isDecoupled: boolean;
  readonly echo: ReturnType<typeof createEcho>;
  readonly draw: () => number;
}

export function createFaultBackend(): Backend {
  return { name: "fault", load, close: () => Promise.resolve() };
}

function load(source: ModelSource): Promise<BackendModel> {
  const model = readModel(source.config);
  source.log.warn("fault", `model '${source.name}' injects faults: backend 'fault' is for tests of clients`);
  return Promise.resolve({
    createInstance: ({ name }) => Promise.resolve(new FaultInstance(name, model)),
    close: () => Promise.resolve(),
  });
}

function readModel(config: ModelConfig): FaultModel {
  const at = `model '${config.name}'`;
  const values = new Map(
    Object.entries(config.parameters).map(([name, { string_value }]) => [name, string_value ?? ""]),
  );
  const seed = Number(values.get(SEED) ?? 0);
  if (!Number.isSafeInteger(seed)) throw invalidArgument(`${at}: '${SEED}' is an integer, got '${values.get(SEED)}'`);
  const requestFaults = values.get(REQUEST_FAULTS) ?? "false";
  if (!["true", "false"].includes(requestFaults)) {
    throw invalidArgument(`${at}: '${REQUEST_FAULTS}' is true or false, got '${requestFaults}'`);
  }
  values.delete(SEED);
  values.delete(REQUEST_FAULTS);
  return {
    settings: faultSettings(values, at),
    takesRequestFaults: requestFaults === "true",
    isDecoupled: config.model_transaction_policy?.decoupled === true,
    echo: createEcho(config),
    draw: seededRandom(seed),
  };
}

class FaultInstance implements ModelInstance {
  readonly name: string;
  /** A hanging request does not hold the instance. */
  readonly answersLater = true;
  readonly #model: FaultModel;
  /** Aborted by a crash, which ends what runs. */
  #life = new AbortController();
  #isAway = false;
  #restart: NodeJS.Timeout | undefined;
  #numHanging = 0;

  constructor(name: string, model: FaultModel) {
    this.name = name;
    this.#model = model;
  }

  execute(batch: Batch): Promise<void> {
    batch.computeStarted();
    const running = batch.requests.map((request) => this.#answer(request));
    return Promise.all(running).then(() => batch.computeEnded());
  }

  load(): number {
    return this.#numHanging;
  }

  isReady(): boolean {
    return !this.#isAway;
  }

  close(): Promise<void> {
    clearTimeout(this.#restart);
    this.#life.abort();
    return Promise.resolve();
  }

  /** Resolves when the instance is free of the request; one that hangs is ended by its client, a crash or the unloading. */
  async #answer(request: BackendRequest): Promise<void> {
    if (this.#isAway) {
      request.fail(this.#crashed());
      return;
    }
    const signal = AbortSignal.any([request.request.signal, this.#life.signal]);
    try {
      const settings = this.#settingsOf(request);
      await this.#delay(settings.latencyMs - settings.jitterMs * Math.log(1 - this.#model.draw()), signal);
      const fault = faultOf(settings, this.#model.draw());
      if (fault === "error") throw new ServerError(settings.errorCode, settings.errorMessage);
      if (fault === "crash") this.#crash(settings.restartMs);
      signal.throwIfAborted();
      if (fault === "hang") this.#hang(request, signal);
      else await this.#respond(request, settings, signal);
    } catch (error) {
      request.fail(this.#failureOf(request, error));
    }
  }

  #settingsOf({ request: { parameters } }: BackendRequest): FaultSettings {
    const { settings, takesRequestFaults } = this.#model;
    return takesRequestFaults ? settingsOfRequest(settings, parameters) : settings;
  }

  async #respond(request: BackendRequest, settings: FaultSettings, signal: AbortSignal): Promise<void> {
    const outputs = this.#model.echo(request);
    if (!this.#model.isDecoupled) {
      request.respond({ outputs, final: true });
      return;
    }
    const { responses, end } = streamPlan(settings);
    for (let k = 0; k < responses; k++) {
      if (k > 0) await this.#delay(settings.responseIntervalMs, signal);
      signal.throwIfAborted();
      request.respond({ outputs, final: false });
      await request.drained();
    }
    if (end === "error") throw new ServerError(settings.errorCode, settings.errorMessage);
    if (end === "hang") this.#hang(request, signal);
    else request.respond({ outputs: [], final: true });
  }

  #hang(request: BackendRequest, signal: AbortSignal): void {
    this.#numHanging += 1;
    const ended = (): void => {
      this.#numHanging -= 1;
      request.fail(this.#failureOf(request, signal.reason));
    };
    signal.addEventListener("abort", ended, { once: true });
  }

  /** As a process that dies: what it works on fails, and it is away until it has restarted. */
  #crash(restartMs: number): void {
    this.#isAway = true;
    this.#life.abort();
    this.#restart = setTimeout(() => {
      this.#isAway = false;
      this.#life = new AbortController();
    }, restartMs);
  }

  #failureOf({ request }: BackendRequest, error: unknown): ServerError {
    if (error instanceof ServerError) return error;
    if (request.signal.aborted) return new ServerError("cancelled", "request was cancelled by its client");
    return this.#life.signal.aborted ? this.#crashed() : ServerError.from(error);
  }

  #crashed(): ServerError {
    return new ServerError("unavailable", `instance '${this.name}' has crashed (injected fault)`);
  }

  async #delay(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal });
  }
}
