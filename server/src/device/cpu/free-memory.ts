/**
 * Memory that this process may still take: the machine's free memory, unless the system grants it less. Figures of a
 * control group count cached files as used, but they are released when memory is needed. A model that was just read, or
 * served before, must not look as if it filled the memory.
 */
import { readFileSync } from "node:fs";
import { freemem } from "node:os";

/** Files of control groups: version 2, then version 1. */
const VERSIONS = [
  { folder: "/sys/fs/cgroup", limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] },
  {
    folder: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
  },
] as const;

type ReadText = (path: string) => string | undefined;

/** Bytes. `machineBytes`: what the machine has free, such copies included. */
export function freeMemory(read: ReadText = readText, machineBytes: number = freemem()): number {
  for (const { folder, limit, used, files } of VERSIONS) {
    const limitBytes = Number(read(`${folder}/${limit}`) ?? "");
    const usedBytes = Number(read(`${folder}/${used}`) ?? "");
    if (!(limitBytes > 0 && Number.isFinite(limitBytes)) || Number.isNaN(usedBytes)) continue;
    const fileBytes = sumOf(read(`${folder}/memory.stat`) ?? "", files);
    return Math.max(0, Math.min(machineBytes, limitBytes - usedBytes + fileBytes));
  }
  return machineBytes;
}

/** Sum over the named lines of "<name> <number>". */
function sumOf(text: string, names: readonly string[]): number {
  let sum = 0;
  for (const line of text.split("\n")) {
    const [name = "", value = ""] = line.split(" ");
    if (names.includes(name)) sum += Number(value);
  }
  return sum;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
