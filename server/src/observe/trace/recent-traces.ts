/**
 * The traces of the last requests, in memory. Requests are traced only while somebody watches: a watch is a lease that its
 * reader renews. Source: own design.
 */
import type { TraceNode } from "./trace-record.ts";

export interface RecentTrace {
  /** Id of the client's request in the trace. */
  readonly id: number;
  readonly nodes: readonly TraceNode[];
}

/** A reader asks every two seconds; browsers slow down pages in the background to once a minute. */
const LEASE_MS = 70_000;
/** More a second are not sampled: traces cost memory, and nobody reads so many. */
const MAX_PER_SECOND = 50;
const MAX_TRACES = 200;
const MS_PER_S = 1000;

export class RecentTraces {
  /** Called when a watch begins. */
  onWatch: () => void = () => undefined;
  readonly #nowMs: () => number;
  readonly #traces: RecentTrace[] = [];
  #watchedUntilMs = Number.NEGATIVE_INFINITY;
  #secondStartMs = Number.NEGATIVE_INFINITY;
  #numInSecond = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  get isWatched(): boolean {
    return this.#nowMs() < this.#watchedUntilMs;
  }

  /** Renews the lease. */
  watch(): void {
    const wasWatched = this.isWatched;
    this.#watchedUntilMs = this.#nowMs() + LEASE_MS;
    if (!wasWatched) this.onWatch();
  }

  /** Whether to trace the request that begins now. */
  take(): boolean {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#watchedUntilMs) return false;
    if (nowMs - this.#secondStartMs >= MS_PER_S) {
      this.#secondStartMs = nowMs;
      this.#numInSecond = 0;
    }
    this.#numInSecond += 1;
    return this.#numInSecond <= MAX_PER_SECOND;
  }

  /** A tree is complete, the client's request first. */
  add(nodes: readonly TraceNode[]): void {
    const [root] = nodes;
    if (root === undefined || !this.isWatched) return;
    this.#traces.push({ id: root.id, nodes });
    if (this.#traces.length > MAX_TRACES) this.#traces.shift();
  }

  /** Newest first. */
  list(): readonly RecentTrace[] {
    return [...this.#traces].reverse();
  }

  find(id: number): RecentTrace | undefined {
    return this.#traces.find((trace) => trace.id === id);
  }
}
