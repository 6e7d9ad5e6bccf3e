/** Which test files cost how much CPU time: the lines that loader/cpu-seconds.mjs wrote, as a table. Reads and starts nothing. */
import type { TestProcess } from "./test-processes.ts";

/** Seconds of one process of the runner: its own, of all that it started and waited for, and until it ended. */
interface CpuSeconds {
  readonly entry: string;
  readonly own: number;
  readonly children: number;
  readonly wall: number;
}

/** Lines for people, the most expensive process first, then the sum. `written` has one JSON object a line. */
export function cpuReport(written: string, filesByEntry: ReadonlyMap<string, TestProcess>): readonly string[] {
  const processes = written
    .split("\n")
    .filter((line) => line !== "")
    .map((line): CpuSeconds => JSON.parse(line))
    .sort((a, b) => total(b) - total(a));
  const sum = processes.reduce((seconds, each) => seconds + total(each), 0);
  return [
    "CPU s   own  wall s  files",
    ...processes.map((each) => {
      const files = filesByEntry.get(each.entry) ?? [each.entry];
      const [cpu, own, wall] = [total(each), each.own, each.wall].map((seconds) => seconds.toFixed(1));
      return `${cpu?.padStart(5)} ${own?.padStart(5)} ${wall?.padStart(7)}  ${files.join(" ")}`;
    }),
    `${sum.toFixed(1)} s of CPU in ${processes.length} processes`,
  ];
}

function total({ own, children }: CpuSeconds): number {
  return own + children;
}
