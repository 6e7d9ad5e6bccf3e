/**
 * Runs models and clients that others have published, unchanged, on this server, and records what came of it. They are not part
 * of this repository: the user brings them.
 *
 * node --conditions=nereid-source --import tsx tests/published/check.ts --python=<with torch, transformers, tritonclient[all]>
 *   [--examples=<examples of Triton's Python backend>] [--inflight=<label>=<an inflight_batcher_llm>]... [--notes=../shared/seeds]
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { checkExamples } from "./examples.ts";
import { askOwn, checkInflight } from "./inflight.ts";
import { checkNotes } from "./notes.ts";
import type { Outcome } from "./outcome.ts";

const RECORDS = fileURLToPath(new URL("records/", import.meta.url));
const NOTES = fileURLToPath(new URL("../../../shared/seeds/", import.meta.url));
const VERSIONS =
  "import sys, json, importlib.metadata as m; " +
  "print(json.dumps({'python': sys.version.split()[0], **{n: m.version(n) for n in " +
  "('numpy', 'torch', 'transformers', 'accelerate', 'tritonclient')}}))";

const { values } = parseArgs({
  options: {
    python: { type: "string" },
    examples: { type: "string" },
    inflight: { type: "string", multiple: true, default: [] },
    notes: { type: "string", default: NOTES },
  },
});
const { python, examples, inflight, notes } = values;
if (python === undefined)
  throw new Error("--python names the interpreter that has torch, transformers and tritonclient");
const startedAt = new Date().toISOString();
const outcomes: Outcome[] = [];
if (examples !== undefined) outcomes.push(...(await checkExamples(examples, python)));
if (inflight.length > 0) {
  const own = await askOwn(python);
  for (const labelled of inflight) {
    const at = labelled.indexOf("=");
    outcomes.push(...(await checkInflight(labelled.slice(0, at), labelled.slice(at + 1), python, own)));
  }
}
if (existsSync(notes)) outcomes.push(...(await checkNotes(notes, python)));
const record = {
  commit: git("rev-parse", "HEAD"),
  hasUncommittedChanges: git("status", "--porcelain", "--untracked-files=no") !== "",
  startedAt,
  node: process.version,
  machine: `${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`,
  /** Load average of the last five minutes at the end: times of a busy machine say little. */
  loadAverage: loadavg()[1],
  versions: JSON.parse(execFileSync(python, ["-c", VERSIONS], { encoding: "utf8" })) as unknown,
  passed: outcomes.every(({ passed }) => passed),
  outcomes,
};
const text = `${JSON.stringify(record, undefined, 2)}\n`;
mkdirSync(RECORDS, { recursive: true });
const file = `${RECORDS}${startedAt.slice(0, 16).replaceAll(":", "")}.json`;
writeFileSync(file, text);
process.stdout.write(`${file}\n${text}`);
if (!record.passed) process.exitCode = 1;

function git(...args: readonly string[]): string {
  return execFileSync("git", [...args], { encoding: "utf8", cwd: RECORDS.replace(/records\/$/, "") }).trim();
}
