/**
 * Progress of a download in the server log: a line at the start, one at intervals, one at the end. Source: Triton
 * documentation, "Logging", for the line format.
 */

import { formatBytes, formatDuration } from "@nereid/server/files/progress-text";
import type { Logger } from "@nereid/server/observe/log";

const INTERVAL_MS = 10_000;
const PERCENT = 100;

export class TransferLog {
  readonly #log: Logger;
  readonly #what: string;
  readonly #totalBytes: number;
  readonly #nowMs: () => number;
  readonly #startMs: number;
  #doneBytes = 0;
  #toldMs: number;

  constructor(
    log: Logger,
    what: string,
    numFiles: number,
    totalBytes: number,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#nowMs = nowMs;
    this.#startMs = nowMs();
    this.#toldMs = this.#startMs;
    this.#log = log;
    this.#what = what;
    this.#totalBytes = totalBytes;
    log.info("model_store", `fetching ${what}: ${numFiles} files, ${formatBytes(totalBytes)}`);
  }

  add(bytes: number): void {
    this.#doneBytes += bytes;
    const nowMs = this.#nowMs();
    if (nowMs - this.#toldMs < INTERVAL_MS) return;
    this.#toldMs = nowMs;
    const percent = Math.floor((PERCENT * this.#doneBytes) / Math.max(1, this.#totalBytes));
    const rate = formatBytes((this.#doneBytes / (nowMs - this.#startMs)) * 1000);
    const done = `${formatBytes(this.#doneBytes)} of ${formatBytes(this.#totalBytes)}`;
    this.#log.info("model_store", `fetching ${this.#what}: ${done} (${percent} %), ${rate}/s`);
  }

  retried(reason: string, pauseMs: number): void {
    this.#log.warn("model_store", `${reason}; trying again in ${formatDuration(pauseMs / 1000)}`);
  }

  end(): void {
    const seconds = (this.#nowMs() - this.#startMs) / 1000;
    this.#log.info("model_store", `fetched ${this.#what} in ${formatDuration(seconds)}`);
  }
}
