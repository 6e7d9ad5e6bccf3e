/** The result of a run as a file for machines and a table for people. */
import { execFileSync } from "node:child_process";
import { availableParallelism, cpus, totalmem } from "node:os";
import process from "node:process";

export interface Circumstances {
  readonly commit: string;
  readonly command: string;
  readonly machine: string;
  readonly node: string;
  readonly date: string;
}

export function circumstances(command: string): Circumstances {
  const gib = Math.round(totalmem() / 2 ** 30);
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  return {
    commit,
    command,
    machine: `${availableParallelism()} virtual cores (${cpus()[0]?.model.trim()}), ${gib} GiB; load and server share them`,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  };
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Three figures that matter, without a point where there are more. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "";
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
}
