/** Node's loader hooks for the thread of a model: files in TypeScript are taken as modules without their types. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { stripTypes } from "./strip-types.ts";

interface Loaded {
  readonly format: string;
  readonly source?: unknown;
  readonly shortCircuit?: boolean;
}

type NextLoad = (url: string, context: unknown) => Promise<Loaded>;

/** The server's own sources have types only while it is developed, and another loader then. */
let ownFolder = "";

export function initialize(data: { readonly ownFolder: string }): void {
  ownFolder = data.ownFolder;
}

export async function load(url: string, context: unknown, nextLoad: NextLoad): Promise<Loaded> {
  const { protocol, pathname } = new URL(url);
  if (protocol !== "file:" || !/\.m?ts$/.test(pathname) || url.startsWith(ownFolder)) return nextLoad(url, context);
  const path = fileURLToPath(url.split("?", 1)[0] ?? url);
  return { format: "module", source: await stripTypes(await readFile(path, "utf8"), path), shortCircuit: true };
}
