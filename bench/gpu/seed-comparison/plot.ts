/**
 * Draws a result of the comparison and prints it as a table:
 * `node --import tsx bench/gpu/seed-comparison/plot.ts <result.json> <plot.svg>`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { drawPlot } from "./draw.ts";
import { tableOf } from "./report.ts";
import type { Row } from "./results.ts";

const [from = "", to = ""] = process.argv.slice(2);
const { model, rows } = JSON.parse(readFileSync(from, "utf8")) as {
  readonly model: string;
  readonly rows: readonly Row[];
};
writeFileSync(to, drawPlot(model, rows));
console.log(tableOf(rows));
