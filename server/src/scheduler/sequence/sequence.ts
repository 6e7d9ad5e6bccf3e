/** One sequence of requests with a common correlation id: waiting requests, slot and state. Decides nothing. */
import type { SequenceInfo } from "../../core/infer-request.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { Slot } from "./slots.ts";
import type { SequenceState } from "./state.ts";

export interface QueuedRequest {
  readonly request: ScheduledRequest;
  /** Flags for the backend: START and END of the client, or of the scheduler for an iterative sequence. */
  readonly flags: SequenceInfo;
  /** It has run before and was rescheduled. */
  readonly isAgain: boolean;
  /** Set while the request's cancellation is observed. */
  unlisten: (() => void) | undefined;
}

export class ClientSequence {
  readonly id: bigint | string;
  readonly state: SequenceState | undefined;
  /** In order of arrival. */
  readonly queue: QueuedRequest[] = [];
  /** Undefined in the backlog. */
  slot: Slot | undefined;
  /** The backend has a request of it, so the next one has to wait. */
  isRunning = false;
  /** No more requests will arrive: the slot becomes free when the queue is empty. */
  isLast = false;
  /** Takes part in forming batches. */
  isOffered = false;
  /** Start of that time, and its batch key. */
  offeredMs = 0;
  key = "";
  /** An ended sequence of the same id that still has requests: this one starts after it. */
  predecessor: ClientSequence | undefined;
  successor: ClientSequence | undefined;
  /** In the backlog: expiry time of all of its requests. */
  deadlineMs: number = Number.POSITIVE_INFINITY;

  constructor(id: bigint | string, state: SequenceState | undefined) {
    this.id = id;
    this.state = state;
  }

  /** Whether its next request could be given to the backend. */
  get isReady(): boolean {
    return this.slot !== undefined && !this.isRunning && this.predecessor === undefined && this.queue.length > 0;
  }
}
