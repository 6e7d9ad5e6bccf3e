/** Fails when sources import each other in a cycle, types included, or when a folder holds too many of them. `npm run imports`. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fullFolders, importCycles, importGraph } from "./import-graph.ts";

const PACKAGES = [
  "wire",
  "client",
  "server",
  "object-stores",
  "images",
  "mcp",
  "retrieval",
  "onnx-tools",
  "offline",
  "perf",
  "web",
];
/** Sources of one level of a folder, tests and measurements excluded. */
const MAX_SOURCES = 27;
const IS_SOURCE = /\.tsx?$/;
const IS_EXCLUDED = /\/(node_modules|dist)\/|\.(test|bench|test-support)\.tsx?$|\.d\.ts$/;

const files = PACKAGES.filter((name) => existsSync(name))
  .flatMap((name) =>
    readdirSync(name, { recursive: true, encoding: "utf8" }).map((path) => `${name}/${path.replaceAll("\\", "/")}`),
  )
  .filter((file) => IS_SOURCE.test(file) && !IS_EXCLUDED.test(file));
const graph = importGraph(new Map(files.map((file) => [file, readFileSync(file, "utf8")])));
const problems = [
  ...importCycles(graph).map((cycle) => `import cycle of ${cycle.length} files: ${cycle.join(", ")}`),
  ...[...fullFolders(files, MAX_SOURCES)].map(
    ([folder, count]) => `${folder}: ${count} sources, expected at most ${MAX_SOURCES}: make subfolders`,
  ),
];
if (files.length === 0) problems.push("no files found: the check itself is broken");
if (![...graph.values()].some((targets) => targets.length > 0)) problems.push("no imports found: the check is broken");
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
