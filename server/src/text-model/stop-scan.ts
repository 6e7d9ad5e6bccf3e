/** Finds stop texts in a text that comes in chunks; holds back what may still begin one. */

export interface Scanned {
  /** Text that is certain to belong to the output. */
  readonly text: string;
  readonly isStopped: boolean;
  /** The text that ended it. */
  readonly stop?: string | undefined;
}

export class StopScan {
  readonly #stops: readonly string[];
  readonly #includesStop: boolean;
  #held = "";

  constructor(stops: readonly string[], includesStop: boolean) {
    this.#stops = stops.filter((stop) => stop !== "");
    this.#includesStop = includesStop;
  }

  get isIdle(): boolean {
    return this.#stops.length === 0;
  }

  push(chunk: string): Scanned {
    if (this.isIdle) return { text: chunk, isStopped: false };
    const text = this.#held + chunk;
    const found = this.#first(text);
    if (found !== undefined) {
      this.#held = "";
      const stop = text.slice(found.start, found.end);
      return { text: text.slice(0, this.#includesStop ? found.end : found.start), isStopped: true, stop };
    }
    const numHeld = this.#partial(text);
    this.#held = text.slice(text.length - numHeld);
    return { text: text.slice(0, text.length - numHeld), isStopped: false };
  }

  /** Text held back, which no stop followed. */
  end(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }

  #first(text: string): { readonly start: number; readonly end: number } | undefined {
    let best: { readonly start: number; readonly end: number } | undefined;
    for (const stop of this.#stops) {
      const start = text.indexOf(stop);
      if (start >= 0 && (best === undefined || start < best.start)) best = { start, end: start + stop.length };
    }
    return best;
  }

  /** Characters at the end of the text that begin a stop. */
  #partial(text: string): number {
    let most = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > most; length--) {
        if (text.endsWith(stop.slice(0, length))) {
          most = length;
          break;
        }
      }
    }
    return most;
  }
}
