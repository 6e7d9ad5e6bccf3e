/**
 * Records of servers that serve a model by its name: one small file each, named by the process, so that other commands of
 * this user find them. A record of a process that is gone is removed by whoever meets it.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { isObject } from "@nereid/server/core/json-object";
import type { ModelStore } from "./model-store.ts";

export interface RunningServer {
  readonly pid: number;
  /** The model's id in all APIs. */
  readonly name: string;
  /** Address of HTTP for clients on this machine. */
  readonly url: string;
  readonly startedMs: number;
}

/** Tells a process from a later one with the same id: its start in clock ticks. Empty where the system does not tell. */
type Stored = RunningServer & { readonly ticks: string };

/** Writes the record of this process. */
export function recordServer(store: ModelStore, { name, url }: Pick<RunningServer, "name" | "url">): Disposable {
  const path = join(store.running, `${process.pid}.json`);
  const record: Stored = { pid: process.pid, name, url, startedMs: Date.now(), ticks: startTicks(process.pid) ?? "" };
  mkdirSync(store.running, { recursive: true });
  writeFileSync(path, JSON.stringify(record), { mode: 0o600 });
  return { [Symbol.dispose]: () => rmSync(path, { force: true }) };
}

/** Servers whose process lives, oldest first. */
export function runningServers(store: ModelStore): readonly RunningServer[] {
  return fileNames(store.running)
    .flatMap((name) => readRecord(join(store.running, name)))
    .sort((a, b) => a.startedMs - b.startedMs);
}

function fileNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(".json"));
  } catch {
    return []; // no server has been started yet
  }
}

function readRecord(path: string): readonly RunningServer[] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (isStored(value) && isAlive(value)) return [value];
  } catch {
    // a record that is being written or removed
    return [];
  }
  rmSync(path, { force: true });
  return [];
}

function isStored(value: unknown): value is Stored {
  if (!isObject(value)) return false;
  const { pid, name, url, startedMs, ticks } = value;
  const areTexts = [name, url, ticks].every((each) => typeof each === "string");
  return areTexts && typeof pid === "number" && Number.isSafeInteger(pid) && pid > 1 && typeof startedMs === "number";
}

function isAlive({ pid, ticks }: Stored): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  const now = startTicks(pid);
  return now === undefined || ticks === "" || now === ticks;
}

/** Field 22 of /proc/PID/stat (proc_pid_stat(5)), counted behind the name, which may hold spaces. */
function startTicks(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
