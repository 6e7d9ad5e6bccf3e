/** One sequence of requests with a common correlation id: what waits, where it runs, what state it has. Decides nothing. */
import type { SequenceInfo } from "../../core/infer-request.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { Slot } from "./slots.ts";
import type { SequenceState } from "./state.ts";

export interface QueuedRequest {
  readonly request: ScheduledRequest;
  /** What the backend is told: START and END of the client or, of an iterative sequence, of the scheduler. */
  readonly flags: SequenceInfo;
  /** It has run before and was given back. */
  readonly isAgain: boolean;
  /** Set while the request's cancellation is listened to. */
  unlisten: (() => void) | undefined;
}

export class Sequence {
  readonly id: bigint | string;
  readonly state: SequenceState | undefined;
  /** In order of arrival. */
  readonly queue: QueuedRequest[] = [];
  /** Undefined in the backlog. */
  slot: Slot | undefined;
  /** A request of it is with the backend: the next one has to wait. */
  isRunning = false;
  /** No more requests will come: the slot gets free when the queue is empty. */
  isLast = false;
  /** Takes part in forming batches. */
  isOffered = false;
  /** Since when, and what its request must have in common with others of a batch. */
  offeredMs = 0;
  key = "";
  /** An ended sequence of the same id that has not run out: this one starts after it. */
  predecessor: Sequence | undefined;
  successor: Sequence | undefined;
  /** In the backlog: when all of its requests are given up. */
  deadlineMs: number = Number.POSITIVE_INFINITY;

  constructor(id: bigint | string, state: SequenceState | undefined) {
    this.id = id;
    this.state = state;
  }

  /** Its next request could be given to the backend. */
  get isReady(): boolean {
    return this.slot !== undefined && !this.isRunning && this.predecessor === undefined && this.queue.length > 0;
  }
}
