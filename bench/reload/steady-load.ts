/** Requests at a steady rate, whether earlier ones are answered or not; their time runs from when they were due. */
import { setTimeout as sleep } from "node:timers/promises";
import type { KeepAliveClient } from "../../tests/support/hostile-http.ts";
import type { Latencies } from "./latencies.ts";

const MS_PER_S = 1000;

export interface LoadTargets {
  /** Paths of the two models. */
  readonly reloaded: string;
  readonly beside: string;
  readonly body: string;
}

export class SteadyLoad {
  readonly #client: KeepAliveClient;
  readonly #periodMs: number;
  readonly #targets: LoadTargets;
  readonly #into: { readonly reloaded: Latencies; readonly beside: Latencies };
  #isOver = false;

  constructor(
    client: KeepAliveClient,
    requestsPerSecond: number,
    targets: LoadTargets,
    into: { readonly reloaded: Latencies; readonly beside: Latencies },
  ) {
    this.#client = client;
    this.#periodMs = MS_PER_S / requestsPerSecond;
    this.#targets = targets;
    this.#into = into;
  }

  /** Resolves when it was stopped and all are answered. */
  async run(): Promise<void> {
    const startMs = performance.now();
    const pending = new Set<Promise<void>>();
    for (let sent = 0; !this.#isOver; sent += 1) {
      const dueMs = startMs + sent * this.#periodMs;
      const waitMs = dueMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      const one = this.#send(sent % 2 === 0 ? "reloaded" : "beside", dueMs).finally(() => pending.delete(one));
      pending.add(one);
    }
    await Promise.all(pending);
  }

  stop(): void {
    this.#isOver = true;
  }

  async #send(target: "reloaded" | "beside", dueMs: number): Promise<void> {
    const isGood = await this.#client.send({ path: this.#targets[target], body: this.#targets.body }).then(
      ({ status }) => status === 200,
      () => false,
    );
    this.#into[target].add(performance.now() - dueMs, isGood);
  }
}
