/** An operation on a server, with its time and the longest time that the server's event loop was held meanwhile. */
import type { InsideServer } from "../../tests/inside/inside-server.ts";

export interface Watched<Result> {
  readonly result: Result;
  readonly wallMs: number;
  /** By the clock: counts the time of other processes on a busy machine. */
  readonly longestMs: number;
  /** CPU time of the loop's thread between two turns. */
  readonly longestCpuMs: number;
}

export async function watched<Result>(inside: InsideServer, work: () => Promise<Result>): Promise<Watched<Result>> {
  await inside.watch();
  const startMs = performance.now();
  const result = await work();
  const wallMs = performance.now() - startMs;
  return { result, wallMs, ...(await inside.delay()) };
}

/** A row of the table of operations. */
export interface Row {
  readonly operation: string;
  readonly wallMs: number;
  readonly longestMs: number;
  readonly longestCpuMs: number;
  readonly note: string;
}

export function rowOf(operation: string, { wallMs, longestMs, longestCpuMs }: Watched<unknown>, note = ""): Row {
  return { operation, wallMs, longestMs, longestCpuMs, note };
}

export function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

export function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}
