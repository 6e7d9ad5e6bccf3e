/**
 * Something that runs a model outside the server and may die: it comes back with growing delays, requests wait for a near
 * return, and its readiness is the truth. Does not know what it is: its owner starts it and says when it has ended.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { countFailures, isWorthWaiting, restartDelayMs } from "./restart-policy.ts";

export interface RestartingParts<T> {
  /** Rejects with the reason; must give up when the signal is aborted. */
  start(signal: AbortSignal): Promise<T>;
  /** For the log: why it is not there, and when it is tried again. */
  failed(cause: string, delayMs: number): void;
  restarted(): void;
}

type State<T> =
  | { readonly tag: "starting" | "closed" }
  | { readonly tag: "ready"; readonly current: T; readonly sinceMs: number }
  | { readonly tag: "restarting"; readonly delayMs: number; readonly attempt: Promise<void> };

export class Restarting<T> {
  readonly #parts: RestartingParts<T>;
  readonly #closing: AbortController = new AbortController();
  #state: State<T> = { tag: "starting" };
  #failures = 0;

  constructor(parts: RestartingParts<T>) {
    this.#parts = parts;
  }

  get current(): T | undefined {
    return this.#state.tag === "ready" ? this.#state.current : undefined;
  }

  get isClosed(): boolean {
    return this.#state.tag === "closed";
  }

  /** The first start: its failure is the caller's. */
  async start(): Promise<void> {
    const current = await this.#parts.start(this.#closing.signal);
    if (!this.isClosed) this.#state = { tag: "ready", current, sinceMs: performance.now() };
  }

  /** The current one, or the next if it starts soon; undefined when waiting is not worth it. */
  soon(): Promise<T | undefined> {
    const state = this.#state;
    if (state.tag === "restarting" && isWorthWaiting(state.delayMs)) return state.attempt.then(() => this.current);
    return Promise.resolve(this.current);
  }

  /**
   * Reports the end of the current one; ignored when it was replaced already. `isSound`: it has completed work, so the
   * next one starts at once with a fresh failure count.
   */
  ended(cause: string, isSound = false): void {
    const state = this.#state;
    if (state.tag !== "ready") return;
    this.#failures = countFailures(
      this.#failures,
      isSound ? Number.POSITIVE_INFINITY : performance.now() - state.sinceMs,
    );
    this.#restartAfter(cause, isSound ? 0 : restartDelayMs(this.#failures));
  }

  /** No restart from now on. Resolves to the last one, when it still lives, for its owner to end. */
  async close(): Promise<T | undefined> {
    const state = this.#state;
    this.#state = { tag: "closed" };
    this.#closing.abort();
    if (state.tag === "restarting") await state.attempt;
    return state.tag === "ready" ? state.current : undefined;
  }

  #restartAfter(cause: string, delayMs: number): void {
    this.#parts.failed(cause, delayMs);
    this.#state = { tag: "restarting", delayMs, attempt: this.#restart(delayMs) };
  }

  /** One attempt. Never rejects: when it fails, the next one is on its way. */
  async #restart(delayMs: number): Promise<void> {
    try {
      await sleep(delayMs, undefined, { signal: this.#closing.signal });
      await this.start();
      if (!this.isClosed) this.#parts.restarted();
    } catch (error) {
      if (this.isClosed) return;
      this.#failures = countFailures(this.#failures, 0);
      this.#restartAfter(error instanceof Error ? error.message : String(error), restartDelayMs(this.#failures));
    }
  }
}
