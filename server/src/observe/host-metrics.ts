/**
 * Host metrics: CPU, memory, and Triton's pinned memory pool, which is unused here (Triton documentation, "Metrics",
 * CPU Metrics).
 */
import { readFileSync } from "node:fs";
import type { MetricFamily } from "./metrics.ts";

const BYTES_PER_KIB = 1024;

export interface CpuTimes {
  readonly total: number;
  readonly idle: number;
}

export function pinnedMemoryFamilies(poolBytes: number): MetricFamily[] {
  return [
    gauge("nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", () => poolBytes),
    gauge("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", () => 0),
  ];
}

/** Utilisation since the last scrape. Without /proc none of these families exists. */
export function cpuFamilies(readProc: (name: string) => string = procFile): MetricFamily[] {
  try {
    readProc("stat");
    readProc("meminfo");
  } catch {
    return []; // not Linux: the families are absent
  }
  let last = parseCpuTimes(readProc("stat"));
  const utilization = (): number => {
    const now = parseCpuTimes(readProc("stat"));
    const total = now.total - last.total;
    const busy = total - (now.idle - last.idle);
    last = now;
    return total > 0 ? busy / total : 0;
  };
  const memory = (): ReadonlyMap<string, number> => parseMemInfo(readProc("meminfo"));
  const totalBytes = (): number => memory().get("MemTotal") ?? 0;
  const usedBytes = (): number => totalBytes() - (memory().get("MemAvailable") ?? 0);
  return [
    gauge("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", utilization),
    gauge("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", totalBytes),
    gauge("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", usedBytes),
  ];
}

/** First line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal ... in ticks. */
export function parseCpuTimes(stat: string): CpuTimes {
  const ticks = (stat.split("\n")[0] ?? "").trim().split(/\s+/).slice(1, 9).map(Number);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { total: ticks.reduce((sum, tick) => sum + tick, 0), idle };
}

/** Bytes by field of /proc/meminfo. */
export function parseMemInfo(meminfo: string): ReadonlyMap<string, number> {
  const fields = new Map<string, number>();
  for (const [, name = "", kib] of meminfo.matchAll(/^(\w+):\s+(\d+) kB$/gm)) {
    fields.set(name, Number(kib) * BYTES_PER_KIB);
  }
  return fields;
}

function gauge(name: string, help: string, read: () => number): MetricFamily {
  return { name, help, type: "gauge", collect: () => [{ labels: {}, value: read() }] };
}

function procFile(name: string): string {
  return readFileSync(`/proc/${name}`, "utf8");
}
