/** Text report of a built engine. Pure. */

import { formatBytes } from "@nereid/server/files/progress-text";
import type { BuildSummary } from "../build/build-engine.ts";
import { PREFILL_ROWS } from "../build/measure-gemms.ts";

export function buildText(
  outputDir: string,
  { numBytes, products, threads, threadTimings }: BuildSummary,
  seconds: number,
): string {
  const rows = products.map(({ shape, type, layout, timings }) => [
    shape.join(" x "),
    `${type}${layout === "repacked" ? " repacked" : ""}`,
    ...timings.slice(0, 1).flatMap(({ decodeUs, prefillUs }) => [us(decodeUs), us(prefillUs)]),
    timings.length < 2 ? "" : `of ${timings.length} choices`,
  ]);
  const table = columns([["matrix", "kept as", "1 token", `${PREFILL_ROWS} tokens`, ""], ...rows]);
  const counts = threadTimings.map(({ threads: count, decodeUs, prefillUs }) => {
    return `${count}: ${us(decodeUs)} and ${us(prefillUs)}`;
  });
  return [
    `Wrote ${outputDir}: config.json and rank0.engine, ${formatBytes(numBytes)} in ${seconds.toFixed(1)} s`,
    ...table.map((line) => `  ${line}`),
    `Threads for one token: ${threads.decode}, for ${PREFILL_ROWS}: ${threads.prefill} (${counts.join("; ")})`,
  ].join("\n");
}

function us(time: number): string {
  return time < 1000 ? `${time.toFixed(0)} us` : `${(time / 1000).toFixed(1)} ms`;
}

/** Lines of text, indented by two blanks. */
function columns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = rows.reduce<number[]>((all, row) => {
    for (const [i, text] of row.entries()) all[i] = Math.max(all[i] ?? 0, text.length);
    return all;
  }, []);
  return rows.map((row) =>
    row
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
