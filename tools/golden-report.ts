/**
 * Writes the table of recorded answers into docs/protocol-support.md, between its two marks, from the result of a replay:
 *   node --import tsx tools/golden-report.ts [.cache/golden-result.json]
 * The golden test leaves that file behind.
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { goldenTable, insertBetweenMarks, type ReplayResult } from "./golden-table.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const [resultFile = `${ROOT}.cache/golden-result.json`] = process.argv.slice(2);
const PAGE = `${ROOT}docs/protocol-support.md`;

const result = JSON.parse(readFileSync(resultFile, "utf8")) as ReplayResult;
const known = JSON.parse(readFileSync(`${ROOT}tests/golden/known-failures.json`, "utf8")) as Record<string, string[]>;
const page = insertBetweenMarks(readFileSync(PAGE, "utf8"), goldenTable(result, known));
writeFileSync(PAGE, page);
console.log(
  `${PAGE}: ${result.results.filter(({ passed }) => passed).length} of ${result.results.length} recorded answers`,
);
