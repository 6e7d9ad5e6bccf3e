/** Results of upstream's cases: one JSON object a line, in a file that is kept with the sources. Pure. */

export type Outcome = "passed" | "failed" | "skipped";

/** One case; the runs of it under several settings of the suite are counted together. */
export interface CaseResult {
  readonly suite: string;
  /** The Python file of the case; `test.sh` for what the script checks itself. */
  readonly file: string;
  readonly name: string;
  readonly outcome: Outcome;
  readonly runs: number;
  readonly failures: number;
  /** The last line of the first failure, or why the case was skipped; "" for a pass. */
  readonly reason: string;
}

/** One run of one case, as the hook in Python writes it. */
export interface CaseRun {
  readonly file: string;
  readonly name: string;
  readonly outcome: Outcome;
  readonly reason: string;
}

const MAX_REASON = 300;

/** @throws SyntaxError for a line that is no JSON */
export function parseResults(text: string): readonly CaseResult[] {
  return lines(text).map((line) => JSON.parse(line) as CaseResult);
}

/** @throws SyntaxError for a line that is no JSON */
export function parseRuns(text: string): readonly CaseRun[] {
  return lines(text).map((line) => JSON.parse(line) as CaseRun);
}

export function printResults(results: readonly CaseResult[]): string {
  return results.map((result) => `${JSON.stringify(result)}\n`).join("");
}

/** A case fails when one of its runs does, and is skipped when all are. */
export function casesOf(suite: string, runs: readonly CaseRun[]): readonly CaseResult[] {
  const byName = new Map<string, CaseRun[]>();
  for (const run of runs) {
    const key = `${run.file} ${run.name}`;
    byName.set(key, [...(byName.get(key) ?? []), run]);
  }
  return [...byName.values()].flatMap((ofCase) => {
    const [first] = ofCase;
    if (first === undefined) return [];
    const failed = ofCase.filter(({ outcome }) => outcome === "failed");
    const passed = ofCase.some(({ outcome }) => outcome === "passed");
    const outcome: Outcome = failed.length > 0 ? "failed" : passed ? "passed" : "skipped";
    const reason = outcome === "passed" ? "" : (failed[0] ?? first).reason.slice(0, MAX_REASON);
    return [
      { suite, file: first.file, name: first.name, outcome, runs: ofCase.length, failures: failed.length, reason },
    ];
  });
}

/** The lines `*** text` between stars, by which the scripts tell of a failed check. */
export function scriptFailures(output: string): readonly string[] {
  const told = [...output.matchAll(/^\*\*\* +(.*\S)/gm)].map(([, text = ""]) => text);
  const isSummary = /^(Test|Tests|Subtest) (Passed|Failed)|PASSED|^Expected test failure$/i;
  return [...new Set(told.filter((text) => !isSummary.test(text)))];
}

/**
 * The cases of a script that prints `Test NAME` before each: a case fails that prints `*** FAILED` or `*** Failed` before the next.
 * The reason is the line before it.
 */
export function scriptCases(output: string): readonly CaseRun[] {
  const [, ...parts] = output.split(/^Test (?=\S)/m);
  return parts.map((part) => {
    const [name = "", ...told] = part.split("\n");
    const at = told.findIndex((line) => /^\*\*\* failed/i.test(line));
    const reason = at < 0 ? "" : [told[at - 1], told[at]].filter((line) => (line ?? "").trim() !== "").join(" ");
    return { file: "test.sh", name: name.replace(/^on /, ""), outcome: at < 0 ? "passed" : "failed", reason };
  });
}

/** The first error of the server's log that a script prints behind a failed check; the check itself where there is none. */
export function firstError(output: string, check: string): string {
  const behind = output.slice(output.indexOf(`*** ${check}`));
  return /^E\d{4} [^\]]*\] "(.*)"$/m.exec(behind)?.[1] ?? check;
}

/** The stored results with those of `suite` replaced, in the order of suites. */
export function mergeResults(
  stored: readonly CaseResult[],
  suite: string,
  results: readonly CaseResult[],
): readonly CaseResult[] {
  const others = stored.filter((result) => result.suite !== suite);
  return [...others, ...results].sort((a, b) => compare(a.suite, b.suite) || compare(a.file, b.file));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function lines(text: string): readonly string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}
