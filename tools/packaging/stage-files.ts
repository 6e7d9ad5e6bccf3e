/** Steps that every package takes on its way into a folder ready for `npm pack`. Knows no package by name. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const WORKSPACE_NOTICES: readonly string[] = ["LICENSE", "NOTICE"];
const SOURCE_MAP_LINK = /\n\/\/# sourceMappingURL=\S+\s*$/;

export function emptyFolder(path: string): string {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  return path;
}

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, "utf8"));
}

export function writeJson(path: string, value: unknown): void {
  writeFileSync(path, `${JSON.stringify(value, undefined, 2)}\n`);
}

export function copyInto(stage: string, folder: string, files: Iterable<string>): void {
  for (const file of files) {
    const target = join(stage, file);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(folder, file), target);
  }
}

/** Built text goes without its link to a map that stays at home. */
export function copyBuilt(
  stage: string,
  folder: string,
  files: Iterable<string>,
  change = (text: string) => text,
): void {
  for (const file of files) {
    const target = join(stage, file);
    mkdirSync(dirname(target), { recursive: true });
    const text = readFileSync(join(folder, file), "utf8").replace(SOURCE_MAP_LINK, "\n");
    writeFileSync(target, change(text));
  }
}

/** Paths of files below a folder, relative to it, sorted. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true, encoding: "utf8" })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, "/").length))
    .sort();
}
