/** Processor time of a process and all that it started, by what each of them is. Reads Linux's /proc; knows no server. */
import { readdirSync, readFileSync } from "node:fs";

/** Length of a tick of USER_HZ, which Linux has always shown as 100. */
const TICK_MS = 10;

interface Entry {
  readonly pid: number;
  readonly parent: number;
  readonly cpuMs: number;
}

/** Milliseconds so far, by process id. */
export type CpuTimes = ReadonlyMap<number, { readonly name: string; readonly cpuMs: number }>;

export function cpuTimes(roots: readonly number[]): CpuTimes {
  const entries = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readEntry(Number(name)));
  const found = new Map(entries.filter(({ pid }) => roots.includes(pid)).map((entry) => [entry.pid, entry]));
  // Children have higher numbers than their parents but where numbers begin anew: until nothing is added.
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const entry of entries) if (found.has(entry.parent)) found.set(entry.pid, entry);
  }
  return new Map([...found.values()].map(({ pid, cpuMs }) => [pid, { name: nameOf(pid), cpuMs }]));
}

/** Milliseconds for each of `count` requests between two looks, by name, the most first. */
export function cpuPerRequest(before: CpuTimes, after: CpuTimes, count: number): Readonly<Record<string, number>> {
  const totals = new Map<string, number>();
  for (const [pid, { name, cpuMs }] of after) {
    const spent = cpuMs - (before.get(pid)?.cpuMs ?? 0);
    totals.set(name, (totals.get(name) ?? 0) + spent / Math.max(1, count));
  }
  const shown = [...totals].filter(([, ms]) => ms >= 0.05).sort(([, a], [, b]) => b - a);
  return Object.fromEntries(shown.map(([name, ms]) => [name, Math.round(ms * 10) / 10]));
}

function readEntry(pid: number): Entry[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return [{ pid, parent: Number(fields[1]), cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS }];
  } catch {
    return []; // it has ended
  }
}

/** The program, without its arguments and its folder. */
function nameOf(pid: number): string {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
    const script = words.slice(1).find((word) => /\.(?:c?js|ts)$/.test(word));
    const program = script ?? words[0] ?? "";
    return program.startsWith("postgres") ? "postgres" : (program.split("/").at(-1) ?? program);
  } catch {
    return "ended";
  }
}
