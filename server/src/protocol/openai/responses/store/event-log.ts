/** Events of a background response, kept so that clients can read them from any number on. Source: own design. */

export class EventLog {
  /** Texts by their sequence numbers. */
  readonly #events: string[] = [];
  readonly #waiting = new Set<() => void>();
  #numBytes = 0;
  #isClosed = false;

  get length(): number {
    return this.#events.length;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  append(text: string): void {
    this.#events.push(text);
    this.#numBytes += Buffer.byteLength(text);
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  /** All events from that number on. */
  from(index: number): string {
    return this.#events.slice(index).join("");
  }

  /** Settles at the next event, at the end, or when the reader leaves. */
  changed(signal: AbortSignal): Promise<void> {
    if (this.#isClosed || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener("abort", wake);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}

/** The events from a number on, then those that come. @param signal of the reader */
export async function* replay(log: EventLog, start: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  let next = start;
  while (!signal.aborted) {
    if (next < log.length) {
      const text = log.from(next);
      next = log.length;
      yield Buffer.from(text);
    } else if (log.isClosed) return;
    else await log.changed(signal);
  }
}
