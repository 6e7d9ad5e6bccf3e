/**
 * One executor of a Python model: a process, its current batch, and its restart. When the process dies, its started
 * requests fail once with the cause. New requests wait for the restart, or are refused if that takes long.
 */
import { ServerError } from "../../core/server-error.ts";
import type { BackendMetrics, Batch, ModelCaller, ModelInstance } from "../backend.ts";
import { RequestsInFlight } from "../supervision/requests-in-flight.ts";
import { Restarting } from "../supervision/restarting.ts";
import type { RunningBatch } from "../supervision/running-batch.ts";
import type { CustomMetrics } from "./custom-metrics.ts";
import {
  ASK,
  CALL,
  CALL_CANCEL,
  decodeCall,
  decodeOptionalResponse,
  decodeOutcome,
  decodeReadiness,
  EXECUTED,
  encodeCancel,
  encodeCredit,
  encodeExecute,
  encodeFinalize,
  encodePing,
  FINALIZED,
  type InitializeMessage,
  LOG,
  PONG,
  READINESS,
  RELEASED,
  RESCHEDULE,
  RESPONSE,
} from "./messages.ts";
import { ModelCalls } from "./model-calls.ts";
import { OwnedMetrics } from "./owned-metrics.ts";
import type { Questions } from "./questions.ts";
import { startStub } from "./start-stub.ts";
import type { StubLaunch, StubProcess } from "./stub-process.ts";
import { UserReadiness } from "./user-readiness.ts";
import type { FrameReader } from "./wire-codec.ts";

export interface PythonInstanceOptions {
  readonly launch: StubLaunch;
  readonly initialize: InitializeMessage;
  readonly startTimeoutMs: number;
  /** How long the process may give no sign of life; 0 = for ever. */
  readonly hangTimeoutMs: number;
  readonly models: ModelCaller;
  readonly questions: Questions;
  readonly customMetrics: CustomMetrics;
  readonly metricsPage: BackendMetrics;
}

export class PythonInstance implements ModelInstance {
  readonly name: string;
  readonly #options: PythonInstanceOptions;
  readonly #inFlight: RequestsInFlight;
  readonly #calls: ModelCalls;
  readonly #readiness: UserReadiness;
  /** Id of the current process, or of the last one. */
  #metrics: OwnedMetrics | undefined;
  readonly #process: Restarting<StubProcess>;
  #running: RunningBatch | undefined;
  #nextBatchId = 1;
  /** The process has completed a batch, so its model is sound. */
  #hasServed = false;

  constructor(options: PythonInstanceOptions) {
    this.name = options.initialize.name;
    this.#options = options;
    this.#inFlight = new RequestsInFlight(options.initialize.decoupled, {
      cancelled: (key) => this.#process.current?.send(encodeCancel(key)),
      credited: (key, count) => this.#process.current?.send(encodeCredit(key, count)),
    });
    this.#calls = new ModelCalls(options.models);
    this.#readiness = new UserReadiness(options.initialize.name);
    const { log } = options.launch;
    this.#process = new Restarting({
      start: (signal) => this.#startProcess(signal),
      failed: (cause, delayMs) => {
        const text = `${this.#unhealthy(cause).message}; ${this.#inFlight.size} requests failed, restarting in ${delayMs} ms`;
        log.error("python", text);
      },
      restarted: () => log.info("python", `Stub process '${this.name}' runs again`),
    });
  }

  /** @throws ServerError with the model's traceback or the cause of the death */
  start(): Promise<void> {
    return this.#process.start();
  }

  isReady(): boolean {
    return this.#process.current !== undefined;
  }

  async checkReady(): Promise<void> {
    const stub = this.#process.current;
    if (stub === undefined) throw this.#unhealthy("");
    await this.#readiness.check((frame) => stub.send(frame));
  }

  execute(batch: Batch): Promise<void> {
    const stub = this.#process.current;
    return stub === undefined ? this.#runSoon(batch) : this.#run(stub, batch);
  }

  async close(): Promise<void> {
    const stub = await this.#process.close();
    if (stub !== undefined) await this.#finalize(stub);
    this.#metrics?.[Symbol.dispose]();
  }

  /** Loads the model in a fresh process. */
  async #startProcess(signal: AbortSignal): Promise<StubProcess> {
    const { launch, initialize, startTimeoutMs, hangTimeoutMs, customMetrics, metricsPage } = this.#options;
    const metrics = new OwnedMetrics(customMetrics, metricsPage);
    const listener = {
      message: (kind: number, reader: FrameReader, stub: StubProcess): void =>
        this.#message(kind, reader, stub, metrics),
      ended: (cause: string): void => this.#died(cause),
    };
    const starting = startStub(launch, initialize, startTimeoutMs, listener, signal);
    const { stub } = await starting.catch((error: unknown) => {
      metrics[Symbol.dispose]();
      throw error;
    });
    // Series of a process that died stay until the next one has made its own: they go on, and do not vanish in between.
    this.#metrics?.[Symbol.dispose]();
    this.#metrics = metrics;
    stub.watchdog?.expectAnswers(() => stub.send(encodePing()), hangTimeoutMs);
    if (signal.aborted) stub.kill("The model is being unloaded");
    else if (stub.isAlive) return stub;
    await stub.ended;
    throw this.#unhealthy("It ended as soon as its model was loaded");
  }

  async #finalize(stub: StubProcess): Promise<void> {
    // The model's own `finalize` comes first; a process that does not end by itself is ended.
    stub.send(encodeFinalize());
    const { startTimeoutMs } = this.#options;
    const timer = setTimeout(() => stub.kill(`It did not finalize within ${startTimeoutMs} ms`), startTimeoutMs);
    await stub.ended;
    clearTimeout(timer);
  }

  async #runSoon(batch: Batch): Promise<void> {
    const stub = await this.#process.soon();
    if (stub === undefined) throw this.#unhealthy("");
    await this.#run(stub, batch);
  }

  #run(stub: StubProcess, batch: Batch): Promise<void> {
    const id = this.#nextBatchId;
    this.#nextBatchId = (id + 1) % 2 ** 32;
    const keys = batch.requests.map((request) => this.#inFlight.add(request));
    const isAlone = batch.requests.length === 1 && !this.#options.initialize.decoupled;
    const frame = encodeExecute(id, batch.requests, keys, stub.placer(isAlone));
    batch.computeStarted();
    stub.send(frame);
    return new Promise((resolve, reject) => {
      this.#running = { id, batch, keys, resolve, reject };
    });
  }

  #message(kind: number, reader: FrameReader, stub: StubProcess, metrics: OwnedMetrics): void {
    if (kind === EXECUTED) this.#executed(reader);
    else if (kind === RESPONSE) this.#responded(reader);
    else if (kind === CALL) this.#called(reader);
    else if (kind === CALL_CANCEL) this.#calls.cancel(reader.u32());
    else if (kind === LOG) this.#logged(reader);
    else if (kind === ASK) this.#options.questions.take(reader, metrics, (frame) => stub.send(frame));
    else if (kind === RELEASED)
      for (const offset of reader.list(() => reader.u64())) stub.blocks.release(Number(offset));
    else if (kind === RESCHEDULE) this.#inFlight.reschedule(reader.u32());
    else if (kind === PONG) stub.watchdog?.answered();
    else if (kind === READINESS) this.#readiness.answered(decodeReadiness(reader));
    else if (kind === FINALIZED) this.#finalized(reader);
    else throw new RangeError(`unknown message kind ${kind}`);
  }

  #executed(reader: FrameReader): void {
    const running = this.#running;
    const id = reader.u32();
    if (running === undefined || running.id !== id) throw new RangeError(`no batch ${id} is running`);
    const failed = reader.bool();
    const text = failed ? reader.string() : "";
    const outcomes = failed ? [] : reader.list(() => decodeOutcome(reader));
    this.#running = undefined;
    this.#hasServed = true;
    running.batch.computeEnded();
    if (failed) this.#failBatch(running, text);
    else this.#answerBatch(running, outcomes);
    // A model that must answer every request settles when it has: its sender may do so from a thread, later.
    if (this.#options.initialize.decoupled) running.resolve();
    else this.#inFlight.whenEnded(running.keys, running.resolve);
  }

  #failBatch({ keys }: RunningBatch, text: string): void {
    this.#options.launch.log.error("python", text);
    const error = new ServerError("internal", text, { reason: "BACKEND" });
    for (const key of keys) this.#inFlight.fail(key, error);
  }

  #answerBatch({ keys }: RunningBatch, outcomes: readonly ReturnType<typeof decodeOutcome>[]): void {
    for (const [index, outcome] of outcomes.entries()) {
      const key = keys[index];
      if (key === undefined || outcome === "by sender") continue;
      if (outcome === "rescheduled") this.#inFlight.reschedule(key);
      else this.#inFlight.respond(key, outcome, true);
    }
  }

  #responded(reader: FrameReader): void {
    const key = reader.u32();
    const final = reader.bool();
    this.#inFlight.respond(key, decodeOptionalResponse(reader), final);
  }

  #called(reader: FrameReader): void {
    const stub = this.#process.current;
    if (stub === undefined) return;
    const call = decodeCall(reader);
    void this.#calls.run(call, stub, this.#inFlight.traceOf(call.traceKey));
  }

  #logged(reader: FrameReader): void {
    const { log } = this.#options.launch;
    const level = reader.u8();
    const location = `${reader.string()}:${reader.u32()}`;
    const message = reader.string();
    if (level === 0) log.info(location, message);
    else if (level === 1) log.warn(location, message);
    else if (level === 2) log.error(location, message);
    else log.verbose(1, location, message);
  }

  #finalized(reader: FrameReader): void {
    const failed = reader.bool();
    const text = reader.string();
    if (failed) this.#options.launch.log.error("python", `${this.name}: finalize failed: ${text}`);
  }

  #died(cause: string): void {
    const { isClosed } = this.#process;
    this.#process.ended(cause, this.#hasServed);
    this.#hasServed = false;
    const error = isClosed
      ? new ServerError("unavailable", `Model instance '${this.name}' is unloaded`)
      : this.#unhealthy(cause);
    this.#calls.cancelAll();
    this.#readiness.fail(error);
    this.#inFlight.failAll(error);
    const running = this.#running;
    this.#running = undefined;
    running?.reject(error);
  }

  #unhealthy(cause: string): ServerError {
    const text = `Stub process '${this.name}' is not healthy.`;
    return new ServerError("internal", cause === "" ? text : `${text} ${cause}`, { reason: "BACKEND" });
  }
}
