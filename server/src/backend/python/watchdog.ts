/**
 * Notices a process that is there and does nothing: stopped by a signal, or answering no more because its interpreter hangs
 * in native code. Says so once; knows neither requests nor restarts.
 */
import { readFileSync } from "node:fs";

const LOOK_MS = 100;

/** One letter of /proc/<pid>/stat, behind the name, which may hold anything. "T" is stopped; a debugger's stop is "t". */
export function processState(stat: string): string {
  return stat.charAt(stat.lastIndexOf(")") + 2);
}

export class Watchdog implements Disposable {
  readonly #timer: NodeJS.Timeout;
  readonly #pid: number;
  readonly #bark: (cause: string) => void;
  #ping: (() => void) | undefined;
  #silenceMs = 0;
  /** When the answer that is awaited was asked for. */
  #askedMs: number | undefined;

  constructor(pid: number, bark: (cause: string) => void) {
    this.#pid = pid;
    this.#bark = bark;
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  /** From now on the process answers pings, or is given up after `silenceMs`; 0 = never. */
  expectAnswers(ping: () => void, silenceMs: number): void {
    if (silenceMs <= 0) return;
    this.#ping = ping;
    this.#silenceMs = silenceMs;
  }

  answered(): void {
    this.#askedMs = undefined;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    if (isStopped(this.#pid)) {
      this.#bark("It was stopped by a signal and did not go on");
      return;
    }
    if (this.#ping === undefined) return;
    const nowMs = performance.now();
    if (this.#askedMs === undefined) {
      this.#askedMs = nowMs;
      this.#ping();
    } else if (nowMs - this.#askedMs > this.#silenceMs) {
      this.#bark(
        `It gave no sign of life for ${this.#silenceMs} ms: native code in it may hang with the interpreter's lock held`,
      );
    }
  }
}

function isStopped(pid: number): boolean {
  try {
    return processState(readFileSync(`/proc/${pid}/stat`, "latin1")) === "T";
  } catch {
    return false; // it has just ended, or this is no Linux
  }
}
