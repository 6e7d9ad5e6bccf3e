/** The table of recorded answers as Markdown, and where it goes on a page. Pure. */

export interface ReplayResult {
  /** Ids that could not be replayed on the machine. */
  readonly skipped: readonly string[];
  readonly results: readonly { readonly id: string; readonly group: string; readonly passed: boolean }[];
}

interface Row {
  passed: number;
  total: number;
  readonly missing: Set<string>;
}

const BEGIN = "<!-- recorded answers: begin -->";
const END = "<!-- recorded answers: end -->";

/** `known` has the ids of failures by their reason. @throws Error when probes were skipped: the table would be about less */
export function goldenTable(
  { results, skipped }: ReplayResult,
  known: Readonly<Record<string, readonly string[]>>,
): string {
  if (skipped.length > 0)
    throw new Error(`${skipped.length} recorded answers were not replayed; the report needs all of them`);
  const reasons = new Map(Object.entries(known).flatMap(([reason, ids]) => ids.map((id) => [id, reason] as const)));
  const groups = new Map<string, Row>();
  for (const { id, group, passed } of results) {
    const row = groups.get(group) ?? { passed: 0, total: 0, missing: new Set<string>() };
    groups.set(group, row);
    row.total += 1;
    if (passed) row.passed += 1;
    else row.missing.add(reasons.get(id) ?? `\`${id}\``);
  }
  const rows = [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, row]) => rowText(name, row));
  const passed = results.filter((result) => result.passed).length;
  const sum = `| **all** | **${passed} / ${results.length}** | |`;
  return ["| group | as recorded | missing |", "| --- | --- | --- |", ...rows, sum].join("\n");
}

function rowText(name: string, { passed, total, missing }: Row): string {
  return `| ${name} | ${passed} / ${total} | ${[...missing].sort().join(", ")} |`;
}

/** @throws Error when the page has no marks */
export function insertBetweenMarks(page: string, text: string): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`the page must have the marks ${BEGIN} and ${END}, in this order`);
  return `${page.slice(0, from)}${BEGIN}\n\n${text}\n\n${page.slice(to)}`;
}
