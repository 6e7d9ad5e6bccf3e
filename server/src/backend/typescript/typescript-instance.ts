/**
 * One executor of a TypeScript model: a thread, its current batch, and its restart. When the thread dies, its started
 * requests fail once with the cause. A batch that the model has not begun goes to the next thread. New requests wait for the
 * restart, or are refused if that takes long.
 */
import { ServerError } from "../../core/server-error.ts";
import type { BackendRequest, Batch, ModelCaller, ModelInstance } from "../backend.ts";
import { RequestsInFlight } from "../supervision/requests-in-flight.ts";
import { Restarting } from "../supervision/restarting.ts";
import type { RunningBatch } from "../supervision/running-batch.ts";
import type { CustomMetrics } from "./custom-metrics.ts";
import type { FromThread, PackedError, PackedRequest, PackedResponse, SeriesMessage } from "./messages.ts";
import { ModelCalls } from "./model-calls.ts";
import { errorOf, packError } from "./model-error.ts";
import { type ModelThread, startThread, type ThreadLaunch } from "./model-thread.ts";
import { TensorPacker, unpackTensor } from "./pack-tensors.ts";

export interface TypescriptInstanceOptions {
  readonly launch: ThreadLaunch;
  readonly models: ModelCaller;
  readonly metrics: CustomMetrics;
}

const TWO_32 = 2 ** 32;

export class TypescriptInstance implements ModelInstance {
  readonly name: string;
  readonly #options: TypescriptInstanceOptions;
  readonly #inFlight: RequestsInFlight;
  readonly #calls: ModelCalls;
  readonly #threads: Restarting<ModelThread>;
  /** Marks what belongs to the present thread. */
  #owner: object = {};
  #running: RunningBatch | undefined;
  #nextBatchId = 1;
  /** The present thread has executed a batch, so its successor starts at once. */
  #hasServed = false;

  constructor(options: TypescriptInstanceOptions) {
    const { launch, models } = options;
    this.name = launch.data.instanceName;
    this.#options = options;
    this.#inFlight = new RequestsInFlight(launch.data.decoupled, {
      cancelled: (key) => this.#threads.current?.send({ type: "cancel", key }),
      credited: (key, count) => this.#threads.current?.send({ type: "credit", key, count }),
    });
    this.#calls = new ModelCalls(models);
    this.#threads = new Restarting({
      start: (signal) => this.#startThread(signal),
      failed: (cause, delayMs) => this.#log("error", `${this.#unhealthy(cause).message}; restarting in ${delayMs} ms`),
      restarted: () => this.#log("info", `Model thread '${this.name}' runs again`),
    });
  }

  /** @throws ServerError with the model's own error, or the cause of its thread's death */
  start(): Promise<void> {
    return this.#threads.start();
  }

  isReady(): boolean {
    return this.#threads.current !== undefined;
  }

  execute(batch: Batch): Promise<void> {
    const thread = this.#threads.current;
    return thread === undefined ? this.#runLater(batch) : this.#run(thread, batch);
  }

  async close(): Promise<void> {
    const thread = await this.#threads.close();
    if (thread === undefined) return;
    thread.send({ type: "finalize" });
    const { startTimeoutMs } = this.#options.launch;
    const timer = setTimeout(() => thread.kill(`It did not finalize within ${startTimeoutMs} ms`), startTimeoutMs);
    await thread.ended;
    clearTimeout(timer);
  }

  #startThread(signal: AbortSignal): Promise<ModelThread> {
    const owner = {};
    this.#owner = owner;
    const listener = {
      message: (message: FromThread, thread: ModelThread): void => this.#message(message, thread),
      ended: (cause: string, thread: ModelThread): void => this.#ended(owner, cause, thread),
    };
    return startThread(this.#options.launch, listener, signal);
  }

  #run(thread: ModelThread, batch: Batch): Promise<void> {
    const id = this.#nextBatchId;
    this.#nextBatchId = (id % (TWO_32 - 1)) + 1;
    const keys = batch.requests.map((request) => this.#inFlight.add(request));
    const packer = new TensorPacker();
    const requests = batch.requests.map((request, index) => packRequest(keys[index] ?? 0, request, packer));
    const buffer = packer.finish();
    batch.computeStarted();
    thread.send({ type: "execute", batchId: id, requests, buffer }, [buffer]);
    return new Promise((resolve, reject) => {
      this.#running = { id, batch, keys, resolve, reject };
    });
  }

  async #runLater(batch: Batch): Promise<void> {
    const thread = await this.#threads.soon();
    if (thread === undefined) throw this.#unhealthy("");
    await this.#run(thread, batch);
  }

  #message(message: FromThread, thread: ModelThread): void {
    switch (message.type) {
      case "responses":
        this.#responded(message.responses, message.executed, message.buffer);
        break;
      case "call":
        void this.#calls.run(
          message,
          (answer, transfer) => thread.send(answer, transfer),
          this.#inFlight.traceOf(message.key),
        );
        break;
      case "cancelCall":
        this.#calls.cancel(message.callId);
        break;
      case "taken":
        this.#calls.taken(message.callId, message.count);
        break;
      case "ask":
        this.#asked(message.askId, message.modelName, thread);
        break;
      case "log":
        this.#log(message.level, message.message);
        break;
      case "series":
        this.#series(message);
        break;
      case "finalized":
        if (message.error !== undefined) this.#log("error", `finalize failed: ${textOf(message.error)}`);
        break;
      case "initialized":
        break;
    }
  }

  #responded(responses: readonly PackedResponse[], executed: number, buffer: ArrayBuffer): void {
    const running = executed === 0 || this.#running?.id !== executed ? undefined : this.#running;
    if (running !== undefined) {
      this.#running = undefined;
      this.#hasServed = true;
      running.batch.computeEnded();
    }
    for (const response of responses) this.#respond(response, buffer);
    if (running === undefined) return;
    if (this.#options.launch.data.decoupled) running.resolve();
    else this.#inFlight.whenEnded(running.keys, running.resolve);
  }

  #respond({ key, final, isEmpty, error, outputs }: PackedResponse, buffer: ArrayBuffer): void {
    if (error === undefined) {
      const tensors = outputs.map((output) => unpackTensor(output, buffer));
      this.#inFlight.respond(key, isEmpty ? undefined : { outputs: tensors, parameters: new Map() }, final);
      return;
    }
    if (error.stack !== "") this.#log("error", error.stack);
    this.#inFlight.fail(key, errorOf(error));
  }

  #asked(askId: number, modelName: string, thread: ModelThread): void {
    try {
      thread.send({ type: "plan", askId, plan: this.#calls.plan(modelName) });
    } catch (thrown) {
      const error = { ...packError(ServerError.from(thrown)), stack: "" };
      thread.send({ type: "plan", askId, error });
    }
  }

  #series(message: SeriesMessage): void {
    if (this.#options.metrics.add(this.#owner, message)) return;
    const { name, metric } = message;
    this.#log("warn", `metric ${name} (${metric}) is not shown: too many series, or another kind has that name`);
  }

  #ended(owner: object, cause: string, thread: ModelThread): void {
    const { isClosed } = this.#threads;
    const error = isClosed
      ? new ServerError("unavailable", `Model instance '${this.name}' is unloaded`)
      : this.#unhealthy(firstLine(cause));
    this.#options.metrics.drop(owner);
    this.#threads.ended(cause, this.#hasServed);
    this.#hasServed = false;
    this.#calls.cancelAll();
    const running = this.#running;
    this.#running = undefined;
    const isUntouched = running !== undefined && !isClosed && !thread.hasBegun(running.id);
    if (isUntouched) this.#inFlight.release(running.keys);
    this.#inFlight.failAll(error);
    if (isUntouched) this.#runLater(running.batch).then(running.resolve, running.reject);
    else running?.reject(error);
  }

  #unhealthy(cause: string): ServerError {
    const text = `Model thread '${this.name}' is not healthy.`;
    return new ServerError("internal", cause === "" ? text : `${text} ${cause}`, { reason: "BACKEND" });
  }

  #log(level: "info" | "warn" | "error" | "verbose", message: string): void {
    const { log } = this.#options.launch;
    const text = `${this.name}: ${message}`;
    if (level === "verbose") log.verbose(1, "typescript", text);
    else log[level]("typescript", text);
  }
}

function packRequest(
  key: number,
  { request, batchSize, outputNames }: BackendRequest,
  packer: TensorPacker,
): PackedRequest {
  const { id, parameters, sequence } = request;
  return {
    ...{ key, id, batchSize, outputNames, parameters, sequence },
    inputs: packer.addAll(request.inputs),
    isCancelled: request.signal.aborted,
  };
}

function textOf({ message, stack }: PackedError): string {
  return stack === "" ? message : stack;
}

/** A stack is for the log, not for clients. */
function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
