/** A count and a sum of durations, as the statistics of the protocol have them. */
import type { DurationStatistic } from "../core/model-server.ts";

const NS_PER_MS = 1e6;

export class Duration {
  count = 0;
  ns = 0;

  add(ms: number): void {
    this.count += 1;
    this.ns += Math.max(0, Math.round(ms * NS_PER_MS));
  }

  snapshot(): DurationStatistic {
    return { count: this.count, ns: this.ns };
  }
}
