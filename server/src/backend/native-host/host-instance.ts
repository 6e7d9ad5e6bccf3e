/** One executor of a model whose host process it shares with the model's other instances: its current batch, and its end. */
import type { ServerError } from "../../core/server-error.ts";
import type { Batch, InstanceSpec, ModelInstance } from "../backend.ts";
import type { ExecutedMessage } from "./messages.ts";

/** The process of the model, as an instance uses it. */
export interface InstanceHost {
  isReady(): boolean;
  /** Sends a batch to the process. @throws ServerError when there is none, and none soon */
  send(instance: HostInstance, batchId: number, batch: Batch): Promise<void>;
  close(instance: HostInstance): Promise<void>;
}

interface Running {
  readonly batchId: number;
  readonly batch: Batch;
  readonly resolve: () => void;
  readonly reject: (error: ServerError) => void;
}

export class HostInstance implements ModelInstance {
  readonly number: number;
  readonly spec: InstanceSpec;
  /** A backend may return from an execution and answer its requests later. */
  readonly answersLater = true;
  readonly #host: InstanceHost;
  #running: Running | undefined;
  #nextBatchId = 1;

  constructor(number: number, spec: InstanceSpec, host: InstanceHost) {
    this.number = number;
    this.spec = spec;
    this.#host = host;
  }

  get name(): string {
    return this.spec.name;
  }

  isReady(): boolean {
    return this.#host.isReady();
  }

  execute(batch: Batch): Promise<void> {
    const batchId = this.#nextBatchId;
    this.#nextBatchId = (batchId + 1) % 2 ** 32;
    return new Promise((resolve, reject) => {
      this.#running = { batchId, batch, resolve, reject };
      this.#host.send(this, batchId, batch).catch((error: ServerError) => this.fail(error));
    });
  }

  /** The backend has returned from the batch. @throws RangeError when no such batch runs */
  executed({ batchId, times }: ExecutedMessage): void {
    const running = this.#running;
    if (running === undefined || running.batchId !== batchId) throw new RangeError(`no batch ${batchId} is running`);
    this.#running = undefined;
    if (times !== undefined) {
      running.batch.computeStarted(times.computeStartMs);
      running.batch.computeEnded(times.computeEndMs);
    }
    running.resolve();
  }

  /** Fails the batch that runs, if one does. */
  fail(error: ServerError): void {
    const running = this.#running;
    this.#running = undefined;
    running?.reject(error);
  }

  close(): Promise<void> {
    return this.#host.close(this);
  }
}
