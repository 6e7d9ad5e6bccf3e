/** How long the event loop of this process was held, from inside. */
import { closeSync, openSync, readSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";
import type { LoopDelay } from "./inside-server.ts";

const TURN_MS = 5;
const NS_PER_MS = 1e6;

/** Two measures of the longest operation: by the clock, which counts other processes too, and by the CPU time of the thread. */
export class LoopWatch {
  readonly #histogram = monitorEventLoopDelay({ resolution: TURN_MS });
  readonly #schedule: number = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  readonly #buffer = Buffer.alloc(128);
  #timer: NodeJS.Timeout | undefined;
  #lastNs = 0;
  #longestNs = 0;

  constructor() {
    process.once("exit", () => closeSync(this.#schedule));
  }

  restart(): void {
    clearInterval(this.#timer);
    this.#histogram.disable();
    this.#histogram.reset();
    this.#histogram.enable();
    this.#longestNs = 0;
    this.#lastNs = this.#threadNs();
    this.#timer = setInterval(() => this.#turn(), TURN_MS).unref();
  }

  read(): LoopDelay {
    this.#turn();
    return {
      longestMs: Math.max(0, this.#histogram.max / NS_PER_MS - TURN_MS),
      p99Ms: Math.max(0, this.#histogram.percentile(99) / NS_PER_MS - TURN_MS),
      longestCpuMs: this.#longestNs / NS_PER_MS,
    };
  }

  #turn(): void {
    const nowNs = this.#threadNs();
    this.#longestNs = Math.max(this.#longestNs, nowNs - this.#lastNs);
    this.#lastNs = nowNs;
  }

  /** First number of schedstat: nanoseconds that the thread ran (proc_pid_schedstat of Linux). */
  #threadNs(): number {
    const length = readSync(this.#schedule, this.#buffer, 0, this.#buffer.length, 0);
    return Number(this.#buffer.toString("latin1", 0, length).split(" ")[0]);
  }
}
