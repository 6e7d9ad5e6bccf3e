/**
 * Which built modules each package ships: those that its programs and its library reach, those that other packages
 * import, those loaded by name (`importOptional`), and the programs of workers. All follows from the code; no list is kept.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { moduleGraph, packageOf } from "./module-graph.ts";
import type { WorkspaceManifest } from "./published-manifest.ts";

export interface WorkspacePackage {
  /** Folder inside the workspace. */
  readonly folder: string;
  readonly manifest: WorkspaceManifest;
}

export interface PackageModules {
  /** Relative to the package's folder. */
  readonly files: readonly string[];
  /** Names of the packages that they import. */
  readonly packages: ReadonlySet<string>;
}

/** `new URL("./json-thread.js", import.meta.url)`, also with a computed extension: a program started by its path. */
const PROGRAM = /new URL\(\s*["`](\.{1,2}\/[\w./-]+?)(?:\.js)?\.?(?:["`]|\$\{)/g;
/** Two adjacent arguments name a package of ours and its module. */
const LOADED_BY_NAME = /"(@nereid\/[a-z-]+)",\s*"([\w./-]+)"/g;

/** By package name. @throws Error for an import that leads to no module of the workspace */
export async function workspaceModules(
  root: string,
  packages: readonly WorkspacePackage[],
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
  modules: PackageModules = { files: [], packages: new Set() };
  readonly #home: string;
  readonly #manifest: WorkspaceManifest;
  readonly #entries: Set<string>;

  constructor(root: string, { folder, manifest }: WorkspacePackage) {
    this.#home = join(root, folder);
    this.#manifest = manifest;
    const library = manifest.exports?.["."] === undefined ? [] : [exportedFile(manifest, manifest.name)];
    this.#entries = new Set([...Object.values(manifest.bin ?? {}), ...library].map((entry) => posix.normalize(entry)));
  }

  /** @returns whether it is a module that was not known before */
  addEntry(specifier: string): boolean {
    const file = exportedFile(this.#manifest, specifier);
    if (file.endsWith(".json") || this.#entries.has(file)) return false;
    if (!existsSync(join(this.#home, file))) throw new Error(`${specifier}: expected ${join(this.#home, file)}`);
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
      this.modules = { files, packages: new Set([...imports].map(packageOf)) };
      const named = texts.flatMap(({ text }) => [...text.matchAll(LOADED_BY_NAME)]);
      return [...imports, ...named.map(([, name = "", module = ""]) => `${name}/${module}`)];
    }
  }

  #programs(file: string, text: string): string[] {
    return [...text.matchAll(PROGRAM)]
      .map(([, path = ""]) => `${posix.join(posix.dirname(file), path)}.js`)
      .filter((path) => path.startsWith("dist/") && existsSync(join(this.#home, path)));
  }
}

/** Target of a specifier in a package's `exports` (Node.js, "Subpath patterns"): one `*`, the longest prefix wins. */
export function exportedFile({ name, exports = {} }: WorkspaceManifest, specifier: string): string {
  const path = `.${specifier.slice(name.length)}`;
  const exact = exports[path];
  const patterns = Object.keys(exports).filter((key) => key.includes("*") && path.startsWith(key.replace(/\*.*$/, "")));
  const pattern = patterns.sort((a, b) => b.length - a.length)[0] ?? "";
  const target = exact ?? exports[pattern];
  const file = typeof target === "string" ? target : target?.default;
  if (file === undefined) throw new Error(`${specifier}: ${name} exports no such module`);
  const [before = "", after = ""] = pattern.split("*");
  return posix.normalize(file.replace("*", path.slice(before.length, path.length - after.length)));
}
