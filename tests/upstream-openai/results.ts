/** Results of pytest (`--junitxml`, the xunit2 schema) as a table. Pure. */

export type Outcome = "passed" | "failed" | "skipped";

export interface CaseResult {
  readonly file: string;
  readonly name: string;
  readonly outcome: Outcome;
  /** First line of why; "" for a pass. */
  readonly reason: string;
}

const CASE = /<testcase classname="([^"]*)" name="([^"]*)"[^>]*?(?:\/>|>([\s\S]*?)<\/testcase>)/g;
const FAULT = /<(failure|error|skipped)[^>]*?message="([^"]*)"/;

export function readResults(xml: string): readonly CaseResult[] {
  return [...xml.matchAll(CASE)].map(([, className = "", name = "", inner = ""]) => {
    const [, kind, message = ""] = FAULT.exec(inner) ?? [];
    const outcome: Outcome = kind === undefined ? "passed" : kind === "skipped" ? "skipped" : "failed";
    const reason = unescaped(message).split("\n")[0] ?? "";
    return { file: /test_\w+/.exec(className)?.[0] ?? className, name: unescaped(name), outcome, reason };
  });
}

function unescaped(text: string): string {
  const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', amp: "&", "#10": "\n" };
  return text.replaceAll(/&(#?\w+);/g, (whole, name: string) => entities[name] ?? whole);
}

/** Markdown: counts by file, then every case that did not pass. */
export function resultTable(results: readonly CaseResult[]): string {
  const files = [...new Set(results.map(({ file }) => file))].sort();
  const count = (file: string, outcome: Outcome): number =>
    results.filter((each) => each.file === file && each.outcome === outcome).length;
  const rows = files.map(
    (file) => `| ${file}.py | ${count(file, "passed")} | ${count(file, "failed")} | ${count(file, "skipped")} |`,
  );
  const others = results
    .filter(({ outcome }) => outcome !== "passed")
    .map(({ file, name, outcome, reason }) => `| ${file}: ${name} | ${outcome} | ${reason.replaceAll("|", "\\|")} |`);
  const head = ["| file | passed | failed | skipped |", "|---|---|---|---|"];
  return [...head, ...rows, "", "| case | outcome | reason |", "|---|---|---|", ...others, ""].join("\n");
}
