/** What a backend sees of a sequence: its requests with control tensors and states, and rows that only fill a batch. */
import type { BackendResponse } from "../backend/backend.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE, withInputs } from "../core/infer-request.ts";
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { ExecutableRequest } from "./execution.ts";
import type { ExecutionTiming } from "./model-statistics.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";
import type { SequenceState } from "./sequence-state.ts";

export interface SequencedRequestParts {
  readonly client: ScheduledRequest;
  /** Control tensors and states, which come after the client's inputs. */
  readonly extraInputs: readonly Tensor[];
  readonly outputNames: readonly string[];
  readonly state: SequenceState | undefined;
  /** Called once: the request has ended and its execution is over. */
  readonly onDone: () => void;
}

export class SequencedRequest implements ExecutableRequest {
  readonly request: InferRequest;
  readonly batchSize: number;
  readonly outputNames: readonly string[];
  readonly #parts: SequencedRequestParts;
  #isExecuted = false;
  #isDone = false;

  constructor(parts: SequencedRequestParts) {
    const { client } = parts;
    this.request = withInputs(client.request, [...client.request.inputs, ...parts.extraInputs]);
    this.batchSize = client.batchSize;
    this.outputNames = parts.outputNames;
    this.#parts = parts;
  }

  get ended(): boolean {
    return this.#parts.client.ended;
  }

  get failed(): boolean {
    return this.#parts.client.failed;
  }

  dequeued(nowMs: number): void {
    this.#parts.client.dequeued(nowMs);
  }

  executed(timing: ExecutionTiming): void {
    this.#parts.client.executed(timing);
    this.#isExecuted = true;
    this.#settle();
  }

  respond(response: BackendResponse): void {
    const { client, state } = this.#parts;
    if (client.ended) return;
    try {
      if (response.error === undefined) state?.take(response.outputs);
      client.respond(response);
    } catch (error) {
      client.fail(ServerError.from(error));
    }
    this.#settle();
  }

  fail(error: ServerError): void {
    this.#parts.client.fail(error);
    this.#settle();
  }

  drained(): Promise<void> {
    return this.#parts.client.drained();
  }

  #settle(): void {
    if (this.#isDone || !this.#isExecuted || !this.ended) return;
    this.#isDone = true;
    this.#parts.onDone();
  }
}

/** A row without a request: it has the shapes of a real one, and its answers go nowhere. */
export class NullRequest implements ExecutableRequest {
  readonly request: InferRequest;
  readonly batchSize: number = 1;
  readonly outputNames: readonly string[];
  /** An execution counts when one of its real requests has succeeded. */
  readonly failed: boolean = true;
  #ended = false;

  constructor(like: ExecutableRequest, inputs: readonly Tensor[]) {
    this.request = {
      ...withInputs(like.request, inputs),
      id: "",
      parameters: NO_PARAMETERS,
      sequence: NO_SEQUENCE,
      origin: { key: {}, isLast: true },
    };
    this.outputNames = like.outputNames;
  }

  get ended(): boolean {
    return this.#ended;
  }

  dequeued(): void {
    // It never waited.
  }

  executed(): void {
    this.#ended = true;
  }

  respond({ final }: BackendResponse): void {
    this.#ended ||= final;
  }

  fail(): void {
    this.#ended = true;
  }

  drained(): Promise<void> {
    return Promise.resolve();
  }
}
