/** Processor time of a process and its living descendants, from /proc. */
import { readdirSync, readFileSync } from "node:fs";

/** The kernel counts in ticks of 10 ms. */
const US_PER_TICK = 10_000;

/** User and system time in microseconds. */
export function cpuTimeUs(pid: number): number {
  let us = ownCpuTimeUs(pid);
  for (const child of childrenOf(pid)) us += cpuTimeUs(child);
  return us;
}

/** Without descendants. */
export function ownCpuTimeUs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  // The name, in brackets, may hold blanks.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * US_PER_TICK;
}

/** That of `ownCpuTimeUs`, counted in nanoseconds by the scheduler: short measurements need it. Threads that ended are missing. */
export function ownThreadTimeUs(pid: number): number {
  const times = readdirSync(`/proc/${pid}/task`).map((task) => {
    return Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "latin1").split(" ")[0]);
  });
  return times.reduce((sum, each) => sum + each, 0) / 1000;
}

function childrenOf(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "latin1").split(" ").filter(Boolean).map(Number),
  );
}
