/**
 * Memory that this process may still take: the machine's free memory, unless the system grants it less. Figures of a
 * control group count cached files as used, but they are released when memory is needed. A model that was just read, or
 * served before, must not look as if it filled the memory.
 */
import { readFileSync } from "node:fs";
import { freemem } from "node:os";

/** Files of control groups: version 2, then version 1. Sources: Linux, "Control Group v2" and "Memory Resource Controller". */
const VERSIONS = [
  {
    root: "/sys/fs/cgroup",
    own: /^0::(.*)$/m,
    limit: "memory.max",
    used: "memory.current",
    files: ["inactive_file", "active_file"],
  },
  {
    root: "/sys/fs/cgroup/memory",
    own: /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m,
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
  },
] as const;

type Version = (typeof VERSIONS)[number];
type ReadText = (path: string) => string | undefined;

/** Bytes. `machineBytes`: what the machine has free, such copies included. */
export function freeMemory(read: ReadText = readText, machineBytes: number = freemem()): number {
  const groups = read("/proc/self/cgroup") ?? "";
  const left = VERSIONS.flatMap((version) => {
    return foldersOf(version, groups).flatMap((folder) => leftIn(folder, version, read) ?? []);
  });
  return Math.min(machineBytes, ...left);
}

/**
 * That of this process, and all around it, which limit it too: a service has a group of its own. In a container the mounted root
 * is the group, and paths seen from outside are not there.
 */
function foldersOf({ root, own }: Version, groups: string): string[] {
  const names = (own.exec(groups)?.[1] ?? "").split("/").filter((name) => name !== "");
  return [root, ...names.map((_, index) => [root, ...names.slice(0, index + 1)].join("/"))];
}

/** Undefined: no such group, or one without a limit. */
function leftIn(folder: string, { limit, used, files }: Version, read: ReadText): number | undefined {
  const limitBytes = Number(read(`${folder}/${limit}`) ?? "");
  const usedBytes = Number(read(`${folder}/${used}`) ?? "");
  if (!(limitBytes > 0 && Number.isFinite(limitBytes)) || Number.isNaN(usedBytes)) return undefined;
  const fileBytes = sumOf(read(`${folder}/memory.stat`) ?? "", files);
  return Math.max(0, limitBytes - usedBytes + fileBytes);
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
