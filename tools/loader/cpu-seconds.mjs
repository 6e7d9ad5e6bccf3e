/**
 * Preloaded into each test process by `tools/run-tests.ts --cpu`: at its end it adds a line to a file, with the CPU seconds of the
 * process and of every process that it started and waited for. proc_pid_stat(5): fields 14 to 17, in ticks of 1/100 s.
 */
import { appendFileSync, readFileSync } from "node:fs";
import process from "node:process";
import { isMainThread } from "node:worker_threads";

const TICKS_PER_SECOND = 100;
const runner = Number(process.env.NEREID_TEST_RUNNER);

// Programs that the test starts inherit the flags of Node: only the process of the test itself reports.
if (isMainThread && process.ppid === runner) {
  process.once("exit", () => {
    const stat = readFileSync("/proc/self/stat", "utf8");
    const ticks = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 15)
      .map(Number);
    const [own, children] = [ticks[0] + ticks[1], ticks[2] + ticks[3]].map((n) => n / TICKS_PER_SECOND);
    const line = { entry: process.argv[1], own, children, wall: performance.now() / 1000 };
    appendFileSync(process.env.NEREID_TEST_CPU_FILE, `${JSON.stringify(line)}\n`);
  });
}
