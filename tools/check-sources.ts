/**
 * Lists files of the folders that implement specifications whose head comment names none. Fails for those in ENFORCED folders
 * and only prints the others. `npm run sources`.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { namesSource } from "./source-rules.ts";

/** Folders whose files implement a specification, a paper or a file format. */
const ROOTS: readonly string[] = [
  "wire/src",
  "wire/assembly",
  "client/src",
  "server/src/protocol",
  "server/src/formats",
  "server/kernels",
  "object-stores/src",
  "retrieval/src/stores",
];
/** Folders in which every file names its source; add a folder here when its last file does. */
const ENFORCED: readonly string[] = [
  "wire/src",
  "wire/assembly",
  "client/src",
  "server/src/protocol",
  "server/src/formats",
  "server/kernels",
  "object-stores/src",
  "retrieval/src/stores",
];
const IS_SOURCE = /\.(ts|cu|cuh)$/;
const IS_EXCLUDED = /\.(test|bench|test-support|d)\.ts$|\/(gen|testing|node_modules|dist)\//;

const missing = ROOTS.flatMap(filesBelow).filter((file) => !namesSource(readFileSync(file, "utf8")));
const isEnforced = (file: string): boolean => ENFORCED.some((folder) => file.startsWith(`${folder}/`));
const [errors, others] = [missing.filter(isEnforced), missing.filter((file) => !isEnforced(file))];
for (const file of errors) process.stderr.write(`${file}: its head comment names no source\n`);
const isList = process.argv.includes("--list");
if (isList) for (const file of others) process.stdout.write(`${file}\n`);
else if (others.length > 0)
  process.stdout.write(`${others.length} files name no source yet: npm run sources -- --list\n`);
process.exitCode = errors.length === 0 ? 0 : 1;

function filesBelow(root: string): string[] {
  if (!existsSync(root)) throw new Error(`${root} of ROOTS does not exist: tools/check-sources.ts must follow a move`);
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((path) => `${root}/${path}`)
    .filter((file) => IS_SOURCE.test(file) && !IS_EXCLUDED.test(file))
    .sort();
}
