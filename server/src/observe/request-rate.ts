/** Recent requests and failures per second. Counting allocates nothing and uses the caller's clock. */

const SLOT_MS = 1000;
const NUM_SLOTS = 10;

export interface RequestRates {
  readonly requestsPerSecond: number;
  readonly errorsPerSecond: number;
}

export class RequestRate {
  /** Ring buffer by second; `#seconds` has the second of each slot. */
  readonly #requests = new Float64Array(NUM_SLOTS);
  readonly #errors = new Float64Array(NUM_SLOTS);
  readonly #seconds = new Float64Array(NUM_SLOTS).fill(-1);
  readonly #startMs: number;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  count(nowMs: number, isError: boolean): void {
    const second = Math.floor(nowMs / SLOT_MS);
    const slot = second % NUM_SLOTS;
    if (this.#seconds[slot] !== second) {
      this.#seconds[slot] = second;
      this.#requests[slot] = 0;
      this.#errors[slot] = 0;
    }
    this.#requests[slot] = (this.#requests[slot] ?? 0) + 1;
    if (isError) this.#errors[slot] = (this.#errors[slot] ?? 0) + 1;
  }

  /** Over the last ten seconds, or the server's life if shorter. */
  rates(nowMs: number): RequestRates {
    const second = Math.floor(nowMs / SLOT_MS);
    let requests = 0;
    let errors = 0;
    for (let slot = 0; slot < NUM_SLOTS; slot++) {
      if (second - (this.#seconds[slot] ?? -1) >= NUM_SLOTS) continue;
      requests += this.#requests[slot] ?? 0;
      errors += this.#errors[slot] ?? 0;
    }
    const windowStartMs = Math.max((second - NUM_SLOTS + 1) * SLOT_MS, this.#startMs);
    const spanS = Math.max(nowMs - windowStartMs, SLOT_MS) / SLOT_MS;
    return { requestsPerSecond: requests / spanS, errorsPerSecond: errors / spanS };
  }
}
