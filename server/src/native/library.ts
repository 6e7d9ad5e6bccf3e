/**
 * Finds the file of a foreign library: environment variable, our platform package, other packages that contain it. Does
 * not load it.
 */

import { readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import type { Environment } from "../core/environment.ts";

export interface LibrarySpec {
  /** For messages, e.g. "ONNX Runtime". */
  readonly title: string;
  /** Environment variable with the file, which has precedence. */
  readonly override: keyof Environment;
  readonly fileName: string;
  /** Packages that contain the file, best first. */
  readonly packages: readonly CarrierPackage[];
}

export interface CarrierPackage {
  readonly name: string;
  /** Folders inside the package, in order; a trailing `*` matches any rest, newest first. */
  readonly folders: readonly string[];
}

export interface LibrarySearch {
  readonly environment: Environment;
  /** Root folder of an installed package, undefined when it is not installed. */
  packageFolder(name: string): string | undefined;
}

/** @throws Error naming every searched location */
export function findLibrary(spec: LibrarySpec, lookUp: LibrarySearch = installedLibraries()): string {
  const searched: string[] = [];
  for (const candidate of candidates(spec, lookUp, searched)) {
    if (isFile(candidate)) return candidate;
    searched.push(candidate);
  }
  throw new Error(
    `${spec.title} is not installed: found no ${spec.fileName} in ${searched.join(", ")}; ` +
      `npm install ${spec.packages.map(({ name }) => name).join(" (or ")}${")".repeat(spec.packages.length - 1)}, ` +
      `or set ${spec.override} to the path of the library`,
  );
}

/** Searches like Node for packages required by this file. */
export function installedLibraries(): LibrarySearch {
  const resolver = createRequire(import.meta.url);
  return {
    environment: process.env,
    packageFolder: (name) => {
      for (const root of resolver.resolve.paths(name) ?? []) {
        const folder = join(root, name);
        if (isFile(join(folder, "package.json"))) return folder;
      }
      return undefined;
    },
  };
}

function* candidates(spec: LibrarySpec, lookUp: LibrarySearch, searched: string[]): Generator<string> {
  const override = lookUp.environment[spec.override];
  if (override !== undefined && override !== "") {
    yield override;
    // A wrong override must be an error, even when a library is found elsewhere.
    return;
  }
  for (const { name, folders } of spec.packages) {
    const root = lookUp.packageFolder(name);
    if (root === undefined) searched.push(`package ${name} (not installed)`);
    else for (const folder of folders) for (const real of expand(root, folder)) yield join(real, spec.fileName);
  }
}

/** Expands folder patterns under a root; a step without match stays unchanged, for the message. */
function expand(root: string, pattern: string): string[] {
  let found = [root];
  for (const step of pattern.split("/").filter((part) => part !== "" && part !== ".")) {
    found = found.flatMap((folder) => matches(folder, step));
  }
  return found;
}

function matches(folder: string, step: string): string[] {
  if (!step.endsWith("*")) return [join(folder, step)];
  const prefix = step.slice(0, -1);
  const names = listFolder(folder).filter((name) => name.startsWith(prefix));
  names.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  return names.length > 0 ? names.map((name) => join(folder, name)) : [join(folder, step)];
}

function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
