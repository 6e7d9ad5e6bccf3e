/** The results of a conformance run as text, JSON and a page. Pure. */
import type { ReportPage } from "../report/html-page.ts";
import type { ProbeResult } from "./probe.ts";

export interface GroupCount {
  readonly group: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export function countGroups(results: readonly ProbeResult[]): readonly GroupCount[] {
  const groups = [...new Set(results.map(({ group }) => group))];
  const count = (group: string, outcome: ProbeResult["outcome"]): number =>
    results.filter((result) => result.group === group && result.outcome === outcome).length;
  return groups.map((group) => ({
    group,
    passed: count(group, "passed"),
    failed: count(group, "failed"),
    skipped: count(group, "skipped"),
  }));
}

export function conformanceText(results: readonly ProbeResult[]): string {
  const groups = countGroups(results);
  const width = Math.max(...groups.map(({ group }) => group.length));
  const lines = groups.map(({ group, passed, failed, skipped }) => {
    const notes = [
      `${passed} passed`,
      ...(failed > 0 ? [`${failed} failed`] : []),
      ...(skipped > 0 ? [`${skipped} skipped`] : []),
    ];
    return `${group.padEnd(width)}  ${notes.join(", ")}`;
  });
  const sum = (key: "passed" | "failed" | "skipped"): number => groups.reduce((total, each) => total + each[key], 0);
  return [...lines, `${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`].join("\n");
}

export function resultLine({ group, name, outcome, detail }: ProbeResult): string {
  return `${outcome}: ${group}: ${name}${detail === "" ? "" : `: ${detail}`}`;
}

export function conformancePage(results: readonly ProbeResult[], facts: Readonly<Record<string, string>>): ReportPage {
  const rows = (outcome: ProbeResult["outcome"]): string[][] =>
    results
      .filter((result) => result.outcome === outcome)
      .map(({ name, group, source, detail }) => [name, group, source, detail]);
  const head = ["probe", "group", "source", "detail"];
  return {
    title: "Conformance of a V2 server",
    facts: Object.entries(facts),
    warnings: [],
    tables: [
      {
        title: "Groups",
        head: ["group", "passed", "failed", "skipped"],
        rows: countGroups(results).map(({ group, passed, failed, skipped }) => [
          group,
          `${passed}`,
          `${failed}`,
          `${skipped}`,
        ]),
      },
      { title: "Failed", head, rows: rows("failed") },
      { title: "Skipped", head, rows: rows("skipped") },
      { title: "Passed", head, rows: rows("passed") },
    ],
    plots: [],
  };
}
