/** Traffic of a long day at a low, steady rate: each request is answered right, or is written down as lost. */

import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials } from "@grpc/grpc-js";
import { KeepAliveClient } from "../../support/hostile-http.ts";
import { createRandom } from "../../support/random.ts";
import type { Killed } from "./disturbances.ts";
import { type DayRequest, type Peers, REQUESTS } from "./requests.ts";
import type { DayState } from "./state.ts";

const CONNECTIONS = 16;
const MAX_LOST_LINES = 1000;

export class Traffic implements Disposable {
  readonly peers: Peers;
  /** Worker processes whose requests may fail just now. */
  readonly killed: Killed = new Set();
  readonly #state: DayState;
  readonly #open = new Set<Promise<void>>();
  readonly #http: KeepAliveClient;
  readonly #grpc: Client;

  constructor(state: DayState, seed: number) {
    this.#state = state;
    this.#http = new KeepAliveClient(state.ports.http, CONNECTIONS);
    this.#grpc = new Client(`127.0.0.1:${state.ports.grpc}`, credentials.createInsecure(), {
      "grpc.max_receive_message_length": -1,
    });
    const random = createRandom(seed * 1009 + state.counts.parts);
    this.peers = { ports: state.ports, http: this.#http, grpc: this.#grpc, random };
  }

  /** For the time given, at so many requests a second; returns when all are answered. */
  async run(seconds: number, perSecond: number): Promise<void> {
    const startMs = performance.now();
    for (let sent = 0; performance.now() - startMs < seconds * 1000; sent += 1) {
      const waitMs = startMs + (sent * 1000) / perSecond - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      const one = this.#sendOne(this.peers.random.pick(REQUESTS)).finally(() => this.#open.delete(one));
      this.#open.add(one);
    }
    await Promise.all(this.#open);
  }

  async #sendOne({ name, needs, send }: DayRequest): Promise<void> {
    const { counts, lost } = this.#state;
    const isKilled = (): boolean => needs.some((worker) => this.killed.has(worker));
    const wasKilled = isKilled();
    try {
      await send(this.peers);
      counts.answered += 1;
    } catch (error) {
      // A connection that breaks is a lost request in any case; a message may tell of the killed process.
      const isAnswered = !/ECONNRESET|socket hang up|no answer|EPIPE/.test(String(error));
      if (isAnswered && (wasKilled || isKilled())) counts.failedByKill += 1;
      else if (lost.length < MAX_LOST_LINES)
        lost.push(`${new Date().toISOString()} ${name}: ${String(error).slice(0, 600)}`);
    }
  }

  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
    this.#grpc.close();
  }
}
