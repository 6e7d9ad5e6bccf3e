/** Fails when a file imports something its layer may not see. Rules: layers.json. No dependencies. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";

const IMPORT = /(?:^|[\s;])(?:import|export)\b[^"';]*?from\s*["']([^"']+)["']|\bimport\s*\(?\s*["']([^"']+)["']/g;
/** Composition roots: the only files that may import everything. */
const EXEMPT = new Set([
  "server/src/main.ts",
  "server/src/frontends.ts",
  "server/src/gpus.ts",
  "server/src/rank-host.ts",
  "server/src/stop-server.ts",
  "server/src/open-caches.ts",
  "server/src/open-places.ts",
  "server/src/open-remote-place.ts",
  "server/src/index.ts",
  "server/src/engine-host.ts",
]);
const PACKAGES = ["wire", "client", "server", "web"];
const layers: Record<string, string[]> = JSON.parse(readFileSync(new URL("layers.json", import.meta.url), "utf8"));
const folders = Object.keys(layers).sort((a, b) => b.length - a.length); // longest match wins

/** The layer a file lives in, or undefined when no rule speaks of it. */
function layerOf(file: string): string | undefined {
  return folders.find((folder) => file.startsWith(`${folder}/`) || file === folder);
}

/** Turns an import into a layer, "npm:<name>" or "node:<name>". */
function targetOf(file: string, specifier: string): string {
  if (!specifier.startsWith(".")) return specifier.startsWith("node:") ? specifier : `npm:${specifier}`;
  const path = join(dirname(file), specifier);
  if (!existsSync(path)) return `missing:${path}`;
  return layerOf(path) ?? path;
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
  if (layer === undefined) return EXEMPT.has(file) ? [] : [`${file}: in no layer; add its folder to layers.json`];
  return [...readFileSync(file, "utf8").matchAll(IMPORT)]
    .map(([, from, bare]) => targetOf(file, from ?? bare ?? ""))
    .filter((target) => !isAllowed(layer, target))
    .map((target) => `${file}: ${layer} may not import ${target}`);
}

const files = sourceFiles();
const problems = files.flatMap(problemsOf);
if (files.length === 0) problems.push("no files found: the check itself is broken");
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
