/** Fails when a file imports something its layer may not see. Rules: layers.json. No dependencies. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { importedPath, importsOf } from "./import-graph.ts";

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
const layers: Record<string, string[]> = JSON.parse(readFileSync(new URL("layers.json", import.meta.url), "utf8"));
const folders = Object.keys(layers).sort((a, b) => b.length - a.length); // longest match wins

/** The layer a file lives in, or undefined when no rule speaks of it. */
function layerOf(file: string): string | undefined {
  return folders.find((folder) => file.startsWith(`${folder}/`) || file === folder);
}

/** Turns an import into a layer, "npm:<name>" or "node:<name>". */
function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith("node:")) return specifier;
  const path = pathOf(file, specifier);
  if (path === undefined) return `npm:${specifier}`;
  if (!existsSync(path)) return `missing:${path}`;
  return layerOf(path) ?? path;
}

/** The file in this workspace, or undefined for a package from elsewhere. */
function pathOf(file: string, specifier: string): string | undefined {
  const path = importedPath(file, specifier);
  // AssemblyScript's imports have no extension.
  return path !== undefined && existsSync(`${path}.ts`) ? `${path}.ts` : path;
}

function isAllowed(layer: string, target: string): boolean {
  if (target === layer) return true;
  const rules = layers[layer] ?? [];
  return rules.some((ok) => target === ok || (ok.endsWith("*") && target.startsWith(ok.slice(0, -1))));
}

/** Sources of the packages, without tests, benches, builds and installed packages. */
function sourceFiles(): string[] {
  const all = PACKAGES.filter((name) => existsSync(name)).flatMap((name) =>
    readdirSync(name, { recursive: true, encoding: "utf8" }).map((path) => `${name}/${path}`),
  );
  return all.filter(
    (f) => /\.tsx?$/.test(f) && !/\/(node_modules|dist)\/|\.(test|bench|test-support)\.tsx?$|\.d\.ts$/.test(f),
  );
}

function problemsOf(file: string): string[] {
  const layer = layerOf(file);
  if (layer === undefined) return [`${file}: in no layer; add its folder to layers.json`];
  return importsOf(readFileSync(file, "utf8"))
    .map((specifier) => targetOf(file, specifier))
    .filter((target) => !isAllowed(layer, target))
    .map((target) => `${file}: ${layer} may not import ${target}`);
}

const files = sourceFiles();
const problems = files.flatMap(problemsOf);
if (files.length === 0) problems.push("no files found: the check itself is broken");
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
