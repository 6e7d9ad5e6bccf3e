/** Fails when a dependency breaks a rule: see dependency-rules.ts. Reads package-lock.json, every package.json and docs/dependencies.md. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  documentProblems,
  type LockedPackages,
  licenseProblems,
  type Manifest,
  shippedProblems,
} from "./dependency-rules.ts";

const root: Manifest & { readonly workspaces: readonly string[] } = readJson("package.json");
const { packages }: { readonly packages: LockedPackages } = readJson("package-lock.json");
const manifests = [root, ...root.workspaces.map((folder) => readJson<Manifest>(join(folder, "package.json")))];
const problems = [
  ...licenseProblems(packages, installedLicense),
  ...shippedProblems(packages),
  ...documentProblems(manifests, readFileSync("docs/dependencies.md", "utf8")),
];
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

/** Packages of other platforms are locked but not installed. */
function installedLicense(folder: string): string | undefined {
  const path = join(folder, "package.json");
  return existsSync(path) ? readJson<{ readonly license?: string }>(path).license : undefined;
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, "utf8"));
}
