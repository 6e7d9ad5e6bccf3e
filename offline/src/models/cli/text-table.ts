/** Rows of texts as columns, as wide as their widest cell. Pure. */
const GAP = "  ";

export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join(GAP)
        .trimEnd(),
    )
    .join("\n");
}

/** "3 minutes ago". */
export function agoText(thenMs: number, nowMs: number = Date.now()): string {
  const seconds = Math.max(0, Math.round((nowMs - thenMs) / 1000));
  const step = STEPS.find(([size]) => seconds >= size);
  if (step === undefined) return "now";
  const count = Math.floor(seconds / step[0]);
  return `${count} ${step[1]}${count === 1 ? "" : "s"} ago`;
}

const STEPS: readonly (readonly [seconds: number, unit: string])[] = [
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
];
