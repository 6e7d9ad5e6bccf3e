/** Between two parts of a long day: which server runs, which parts it has served, what was measured. A file of JSON. */
import { readFileSync, writeFileSync } from "node:fs";
import type { MemoryUse } from "../../inside/inside-server.ts";
import type { Ports } from "../../support/server-process.ts";

export interface Sample extends MemoryUse {
  /** Since the server's start, pauses between parts included. */
  readonly hours: number;
  readonly descriptors: number;
  /** Worker processes of all kinds, and what they hold together. */
  readonly children: number;
  readonly childrenBytes: number;
  readonly answered: number;
}

/** Counts over all parts. */
export interface Counts {
  parts: number;
  /** Seconds under traffic. */
  seconds: number;
  answered: number;
  /** Failed with a message while a process that they needed was killed. */
  failedByKill: number;
  /** Connections and requests that were broken on purpose. */
  hostile: number;
  reloads: number;
  churns: number;
  kills: number;
}

export interface DayState {
  readonly pid: number;
  /** Field 22 of /proc/pid/stat: another process with the same number has another. */
  readonly startTicks: string;
  readonly startedAt: string;
  readonly ports: Ports;
  readonly counts: Counts;
  readonly samples: Sample[];
  /** One line for each request that came to nothing. */
  readonly lost: string[];
}

export const NO_COUNTS: Counts = {
  parts: 0,
  seconds: 0,
  answered: 0,
  failedByKill: 0,
  hostile: 0,
  reloads: 0,
  churns: 0,
  kills: 0,
};

/** Undefined when there is none, or when its server has ended. */
export function loadState(file: string): DayState | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
  const state = JSON.parse(text) as DayState;
  return startTicks(state.pid) === state.startTicks ? state : undefined;
}

export function saveState(file: string, state: DayState): void {
  writeFileSync(file, `${JSON.stringify(state)}\n`);
}

/** "" when no such process runs (proc(5), /proc/pid/stat). */
export function startTicks(pid: number): string {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [processState, ...rest] = fields.slice(fields.lastIndexOf(")") + 2).split(" ");
    return processState === "Z" ? "" : (rest[18] ?? "");
  } catch {
    return "";
  }
}
