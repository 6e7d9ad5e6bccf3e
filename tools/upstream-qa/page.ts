/** The results of upstream's cases as Markdown, and the part of docs/upstream-tests.md that holds them. Pure. */
import { knownReason } from "./reasons.ts";
import type { CaseResult, Outcome } from "./results.ts";

const BEGIN = "<!-- original files: begin -->";
const END = "<!-- original files: end -->";

/** Counts by suite, then every case that did not pass with its reason; cases of one suite and reason share a row. */
export function qaPage(results: readonly CaseResult[]): string {
  const suites = [...new Set(results.map(({ suite }) => suite))];
  const counts = suites.map((suite) =>
    countRow(
      suite,
      results.filter((result) => result.suite === suite),
    ),
  );
  const total = countRow("**all**", results);
  const others = results.filter(({ outcome }) => outcome !== "passed");
  return [
    "| suite | passed | failed | skipped |",
    "| --- | --- | --- | --- |",
    ...counts,
    total,
    "",
    "| suite | cases that do not pass | reason |",
    "| --- | --- | --- |",
    ...reasonRows(others),
  ].join("\n");
}

/** @throws Error when the page has no marks */
export function withQaPage(page: string, text: string): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`the page must have the marks ${BEGIN} and ${END}, in this order`);
  return `${page.slice(0, from)}${BEGIN}\n\n${text}\n\n${page.slice(to)}`;
}

function countRow(suite: string, results: readonly CaseResult[]): string {
  const count = (outcome: Outcome): number => results.filter((result) => result.outcome === outcome).length;
  return `| ${suite} | ${count("passed")} | ${count("failed")} | ${count("skipped")} |`;
}

function reasonRows(results: readonly CaseResult[]): readonly string[] {
  const rows = new Map<string, { suite: string; reason: string; cases: string[] }>();
  for (const result of results) {
    const suite = results.filter((other) => other.suite === result.suite);
    const reason = knownReason(result, suite) ?? `not explained yet: ${result.reason}`;
    const key = `${result.suite} ${reason}`;
    const row = rows.get(key) ?? { suite: result.suite, reason, cases: [] };
    rows.set(key, row);
    row.cases.push(caseText(result));
  }
  return [...rows.values()].map(
    ({ suite, reason, cases }) => `| ${suite} | ${cell(cases.join(", "))} | ${cell(reason)} |`,
  );
}

/** `FAILED of RUNS` where only some runs of the case fail. */
function caseText({ name, file, runs, failures, outcome }: CaseResult): string {
  const isPart = outcome === "failed" && failures < runs;
  const short = file === "test.sh" ? `test.sh: ${name}` : name.replace(/^\w+\./, "");
  return isPart ? `${short} (${failures} of ${runs} runs)` : short;
}

/** Text of a table's cell: bars and angle brackets would be markup. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll(/\s+/g, " ");
}
