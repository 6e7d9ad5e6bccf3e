/** How many processors this process may use: those it may run on, unless the system grants it less of their time. */
import { readFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";

/** Version 2 of control groups: "<quota> <period>" in microseconds, "max" for no quota. Version 1: one file each. */
const QUOTA_FILE = "/sys/fs/cgroup/cpu.max";
const OLD_QUOTA_FILES = ["/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"] as const;

type ReadText = (path: string) => string | undefined;

/** At least one. Threads beyond a quota are stopped for most of each period, and all others wait for them. */
export function availableProcessors(read: ReadText = readText, processors: number = availableParallelism()): number {
  const quota = quotaOf(read);
  return quota === undefined ? processors : Math.max(1, Math.min(processors, Math.floor(quota)));
}

/** The system's name of the processor; empty if unknown. */
export function processorName(): string {
  return cpus()[0]?.model.trim() ?? "";
}

/** Processors' worth of time; undefined without a quota. */
function quotaOf(read: ReadText): number | undefined {
  const text = read(QUOTA_FILE) ?? OLD_QUOTA_FILES.map((path) => read(path)?.trim() ?? "").join(" ");
  const [quota = "", period = ""] = text.trim().split(" ");
  const ratio = Number(quota) / Number(period);
  return quota !== "" && ratio > 0 && Number.isFinite(ratio) ? ratio : undefined;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
