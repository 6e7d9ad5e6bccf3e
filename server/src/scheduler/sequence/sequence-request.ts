/** What a backend sees of a sequence: its requests with control tensors and states, and rows that only fill a batch. */
import type { BackendResponse } from "../../backend/backend.ts";
import {
  type InferRequest,
  NO_PARAMETERS,
  NO_SEQUENCE,
  type SequenceInfo,
  withInputs,
} from "../../core/infer-request.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ExecutableRequest } from "../execution.ts";
import type { ExecutionTiming } from "../execution-timing.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { SequenceState } from "./state.ts";

export interface SequencedRequestParts {
  readonly client: ScheduledRequest;
  readonly flags: SequenceInfo;
  /** Control tensors and states, which come after the client's inputs. */
  readonly extraInputs: readonly Tensor[];
  readonly outputNames: readonly string[];
  readonly state: SequenceState | undefined;
  readonly listener: SequencedListener;
}

/** Told once that the execution is over. */
export interface SequencedListener {
  /** And the request has ended. */
  onDone(): void;
  /** And the request wants to run again. Absent where that is not allowed. */
  onGivenBack?(): void;
}

export class SequencedRequest implements ExecutableRequest {
  readonly request: InferRequest;
  readonly batchSize: number;
  readonly outputNames: readonly string[];
  readonly #parts: SequencedRequestParts;
  #isExecuted = false;
  #isDone = false;
  #isGivenBack = false;
  /** Only where the listener can take the request back. */
  readonly reschedule?: () => void;

  constructor(parts: SequencedRequestParts) {
    const { client, flags, listener } = parts;
    this.request = withInputs(client.request, [...client.request.inputs, ...parts.extraInputs], flags);
    this.batchSize = client.batchSize;
    this.outputNames = parts.outputNames;
    this.#parts = parts;
    if (listener.onGivenBack !== undefined) this.reschedule = () => this.#giveBack();
  }

  get isGivenBack(): boolean {
    return this.#isGivenBack;
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
    if (!this.#isGivenBack) this.#parts.client.executed(timing);
    this.#isExecuted = true;
    this.#settle();
  }

  respond(response: BackendResponse): void {
    const { client, state } = this.#parts;
    if (client.ended || this.#isGivenBack) return;
    try {
      if (response.error === undefined) state?.take(response.outputs);
      client.respond(response);
    } catch (error) {
      client.fail(ServerError.from(error));
    }
    this.#settle();
  }

  fail(error: ServerError): void {
    if (this.#isGivenBack) return;
    this.#parts.client.fail(error);
    this.#settle();
  }

  drained(): Promise<void> {
    return this.#parts.client.drained();
  }

  #settle(): void {
    if (this.#isDone || !this.#isExecuted || !(this.ended || this.#isGivenBack)) return;
    this.#isDone = true;
    const { listener } = this.#parts;
    if (this.ended) listener.onDone();
    else listener.onGivenBack?.();
  }

  /** Nothing that the backend says of this execution counts from here on. */
  #giveBack(): void {
    if (this.ended) return;
    this.#isGivenBack = true;
    this.#parts.client.givenBack();
    this.#settle();
  }
}

/** What stands in all rows without a request: it has the shapes of a real one, and its answers go nowhere. */
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
