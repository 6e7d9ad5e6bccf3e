/**
 * Node's loader hooks for the thread of a model. TypeScript files are loaded as modules without their types. They are
 * found as editors find them, by "./util" and "./util.js" as well as by "./util.ts".
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { stripTypes } from "./strip-types.ts";

interface Loaded {
  readonly format: string;
  readonly source?: unknown;
  readonly shortCircuit?: boolean;
}

interface Resolved {
  readonly url: string;
}

type NextResolve = (specifier: string, context: unknown) => Promise<Resolved>;
type NextLoad = (url: string, context: unknown) => Promise<Loaded>;

/** The server's own sources have types only while it is developed, and another loader then. */
let ownFolder = "";

export function initialize(data: { readonly ownFolder: string }): void {
  ownFolder = data.ownFolder;
}

/** @throws Error of Node, with what to do about it where that is known */
export async function resolve(specifier: string, context: unknown, nextResolve: NextResolve): Promise<Resolved> {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    for (const other of otherNames(specifier)) {
      const found = await nextResolve(other, context).catch(() => undefined);
      if (found !== undefined) return found;
    }
    if (error instanceof Error && isPackage(specifier)) {
      const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
      error.message += ` ("npm install ${name}" in the model's folder, or in one above it, installs it)`;
    }
    throw error;
  }
}

function otherNames(specifier: string): readonly string[] {
  if (!/^\.{0,2}\//.test(specifier)) return [];
  const stem = specifier.replace(/\.m?js$/, "");
  return [`${stem}.ts`, `${stem}.mts`, `${specifier}/index.ts`, `${specifier}.js`];
}

function isPackage(specifier: string): boolean {
  return /^(@[\w.-]+\/)?[\w.-]+(\/|$)/.test(specifier) && !specifier.startsWith(".");
}

export async function load(url: string, context: unknown, nextLoad: NextLoad): Promise<Loaded> {
  const { protocol, pathname } = new URL(url);
  if (protocol !== "file:" || !/\.m?ts$/.test(pathname) || url.startsWith(ownFolder)) return nextLoad(url, context);
  const path = fileURLToPath(url.split("?", 1)[0] ?? url);
  return { format: "module", source: await stripTypes(await readFile(path, "utf8"), path), shortCircuit: true };
}
