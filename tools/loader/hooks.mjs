/** Hooks of Node's module loader ("Customization hooks") for TypeScript without syntax of its own meaning. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const CACHE = fileURLToPath(new URL("../../.cache/typescript/", import.meta.url));
/** Part of each name in the cache: another release may write other text. */
const VERSION = `${require("@swc/wasm-typescript/package.json").version} ${require("esbuild/package.json").version}`;
const TYPESCRIPT = /\.m?ts(\?|$)/;
/** Explicit resource management (ECMAScript proposal): Node.js 20 cannot parse it. */
const USING = /^\s*(await )?using /m;

mkdirSync(CACHE, { recursive: true });

/** Imports of our sources name files: the search of Node is for the others. */
export function resolve(specifier, context, nextResolve) {
  if (/^\.{1,2}\/.*\.ts$/.test(specifier) && context.parentURL?.startsWith("file:")) {
    const url = new URL(specifier, context.parentURL);
    if (existsSync(url)) return { url: url.href, format: "module", shortCircuit: true };
  }
  return nextResolve(specifier, context);
}

export function load(url, context, nextLoad) {
  if (!url.startsWith("file:") || !TYPESCRIPT.test(url)) return nextLoad(url, context);
  const path = fileURLToPath(url);
  return {
    format: "module",
    source: javaScriptOf(mutated(readFileSync(path, "utf8"), path), path),
    shortCircuit: true,
  };
}

/** `tests/mutants` runs tests with one protection taken out: `file`, `from` and `to` as JSON. */
const MUTANT = JSON.parse(process.env.NEREID_TEST_MUTANT ?? "{}");

function mutated(source, path) {
  if (path !== MUTANT.file) return source;
  if (source.split(MUTANT.from).length !== 2) throw new Error(`${path}: expected once, to take it out: ${MUTANT.from}`);
  return source.replace(MUTANT.from, () => MUTANT.to);
}

/** From the cache, whose files are named by what they were made from. */
function javaScriptOf(source, path) {
  const cached = join(CACHE, createHash("sha256").update(VERSION).update("\0").update(source).digest("hex"));
  try {
    return readFileSync(cached, "utf8");
  } catch {
    const text = translate(source, path);
    // Other processes may write the same: each its own file, the last one stays.
    const own = `${cached}-${process.pid}-${Math.random()}`;
    writeFileSync(own, text);
    renameSync(own, cached);
    return text;
  }
}

function translate(source, path) {
  if (!USING.test(source)) {
    try {
      return require("@swc/wasm-typescript").transformSync(source, { mode: "strip-only" }).code;
    } catch {
      // Syntax with a meaning, as enums: esbuild translates it, or says in which line the fault is.
    }
  }
  const options = { loader: "ts", format: "esm", target: "node20", sourcefile: path, sourcemap: "inline" };
  return require("esbuild").transformSync(source, options).code;
}
