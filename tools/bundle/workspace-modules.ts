/**
 * Which modules of each package others start from: its programs and its library, those that other packages import, those
 * loaded by name (`importOptional`), and the programs of workers. All follows from the sources; no list is kept.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { moduleGraph, packageOf } from "./module-graph.ts";

/** By path inside the package: a file, or files by condition (Node.js, "Conditional exports"), which nest. */
export type PackageExports = Readonly<Record<string, string | ConditionalFiles>>;
export type ConditionalFiles = { readonly [condition: string]: string | ConditionalFiles };

/** A package.json as far as the build looks at it. */
export interface EntryManifest {
  readonly name: string;
  readonly exports?: PackageExports;
  readonly bin?: Readonly<Record<string, string>>;
}

export interface WorkspaceMember {
  /** Folder inside the workspace. */
  readonly folder: string;
  readonly manifest: EntryManifest;
}

export interface PackageModules {
  /** Sources that become files of their own, relative to the package's folder. */
  readonly entries: readonly string[];
  /** Names of the packages that the package's modules import. */
  readonly packages: ReadonlySet<string>;
}

/** Condition of `exports` under which the workspace resolves to sources. */
export const SOURCE_CONDITION = "nereid-source";
/** `new URL("./json-thread.ts", import.meta.url)`, also with a computed extension: a program started by its path. */
const PROGRAM = /new URL\(\s*["`](\.{1,2}\/[\w./-]+?)(?:\.[jt]s)?\.?(?:["`]|\$\{)/g;
/** Two adjacent arguments name a package of ours and its module. */
const LOADED_BY_NAME = /"(@nereid\/[a-z-]+)",\s*"([\w./-]+)"/g;
/** A program in JavaScript starts what is built from `src`. */
const BUILT_IMPORT = /import\("\.\.\/dist\/([\w./-]+)\.js"\)/g;

/** By package name. @throws Error for an import that leads to no module of the workspace */
export async function workspaceModules(
  root: string,
  packages: readonly WorkspaceMember[],
): Promise<ReadonlyMap<string, PackageModules>> {
  const members = new Map(packages.map((each) => [each.manifest.name, new Member(root, each)]));
  const pending = new Set(members.values());
  for (const member of pending) {
    pending.delete(member);
    for (const specifier of await member.read()) {
      const target = members.get(packageOf(specifier));
      if (target?.addEntry(specifier) === true) pending.add(target);
    }
  }
  return new Map([...members].map(([name, { modules }]) => [name, modules]));
}

class Member {
  modules: PackageModules = { entries: [], packages: new Set() };
  readonly #home: string;
  readonly #manifest: EntryManifest;
  readonly #entries: Set<string>;
  /** Specifiers in its programs in JavaScript. */
  readonly #ofPrograms: readonly string[];

  constructor(root: string, { folder, manifest }: WorkspaceMember) {
    this.#home = join(root, folder);
    this.#manifest = manifest;
    const library = Object.keys(manifest.exports ?? {}).filter(
      (path) => !path.includes("*") && !path.endsWith(".json"),
    );
    const main = library.map((path) => exportedFile(manifest, manifest.name + path.slice(1)));
    const texts = Object.values(manifest.bin ?? {}).map((path) => readFileSync(join(this.#home, path), "utf8"));
    const started = texts.flatMap((text) => [...text.matchAll(BUILT_IMPORT)].map(([, path = ""]) => `${path}.ts`));
    this.#ofPrograms = texts.flatMap((text) =>
      [...text.matchAll(/require\("(@[^"]+)"\)/g)].map(([, name = ""]) => name),
    );
    this.#entries = new Set([...main, ...started]);
  }

  /** @returns whether it is a module that was not known before */
  addEntry(specifier: string): boolean {
    const file = exportedFile(this.#manifest, specifier);
    if (!existsSync(join(this.#home, file))) throw new Error(`${specifier}: expected ${join(this.#home, file)}`);
    if (!file.endsWith(".ts") || this.#entries.has(file)) return false;
    this.#entries.add(file);
    return true;
  }

  /** Follows the imports again. Resolves with specifiers of modules of other packages. */
  async read(): Promise<readonly string[]> {
    for (;;) {
      const { files, imports } = await moduleGraph(this.#home, [...this.#entries]);
      const texts = files.map((file) => ({ file, text: readFileSync(join(this.#home, file), "utf8") }));
      const programs = texts.flatMap(({ file, text }) => this.#programs(file, text));
      const added = programs.filter((program) => !this.#entries.has(program));
      for (const program of added) this.#entries.add(program);
      if (added.length > 0) continue;
      const specifiers = [...imports, ...this.#ofPrograms];
      this.modules = { entries: [...this.#entries].sort(), packages: new Set(specifiers.map(packageOf)) };
      const named = texts.flatMap(({ text }) => [...text.matchAll(LOADED_BY_NAME)]);
      return [...specifiers, ...named.map(([, name = "", module = ""]) => `${name}/${module}`)];
    }
  }

  #programs(file: string, text: string): string[] {
    return [...text.matchAll(PROGRAM)]
      .map(([, path = ""]) => `${posix.join(posix.dirname(file), path)}.ts`)
      .filter((path) => existsSync(join(this.#home, path)));
  }
}

/** Source of a specifier in a package's `exports` (Node.js, "Subpath patterns"): one `*`, the longest prefix wins. */
export function exportedFile({ name, exports = {} }: EntryManifest, specifier: string): string {
  const path = `.${specifier.slice(name.length)}`;
  const exact = exports[path];
  const patterns = Object.keys(exports).filter((key) => key.includes("*") && path.startsWith(key.replace(/\*.*$/, "")));
  const pattern = patterns.sort((a, b) => b.length - a.length)[0] ?? "";
  const target = exact ?? exports[pattern];
  const file = typeof target === "string" ? target : target?.[SOURCE_CONDITION];
  if (typeof file !== "string") throw new Error(`${specifier}: ${name} exports no such module`);
  const [before = "", after = ""] = pattern.split("*");
  return posix.normalize(file.replace("*", path.slice(before.length, path.length - after.length)));
}
