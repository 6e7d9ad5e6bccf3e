/** The backend's view of a sequence request: client inputs, control tensors, states; also padding rows of a batch. */
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
  /** Control tensors and states, which follow the client's inputs. */
  readonly extraInputs: readonly Tensor[];
  readonly outputNames: readonly string[];
  readonly state: SequenceState | undefined;
  readonly listener: SequencedListener;
}

/** Called once when the execution is over. */
export interface SequencedListener {
  /** Called when the request has ended, too. */
  onDone(): void;
  /** Called when the request is to run again. Absent when that is not allowed. */
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
  /** Only when the listener can reschedule the request. */
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

  drained(): Promise<void> | undefined {
    return this.#parts.client.drained();
  }

  #settle(): void {
    if (this.#isDone || !this.#isExecuted || !(this.ended || this.#isGivenBack)) return;
    this.#isDone = true;
    const { listener } = this.#parts;
    if (this.ended) listener.onDone();
    else listener.onGivenBack?.();
  }

  /** Ignores everything that the backend reports of this execution from now on. */
  #giveBack(): void {
    if (this.ended) return;
    this.#isGivenBack = true;
    this.#parts.client.givenBack();
    this.#settle();
  }
}

/** A padding row: it has the shapes of a real request, and its responses are discarded. */
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

  drained(): Promise<void> | undefined {
    return Promise.resolve();
  }
}
