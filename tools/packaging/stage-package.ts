/** Any package of the workspace: its built modules, the files beside them, its manifest and notices. */
import { existsSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import type { ConditionalFiles } from "../bundle/workspace-modules.ts";
import { publishedManifest, type WorkspaceManifest } from "./published-manifest.ts";
import { copyBuilt, copyInto, emptyFolder, filesBelow, WORKSPACE_NOTICES, writeJson } from "./stage-files.ts";

export interface WorkspacePackage {
  /** Folder inside the workspace. */
  readonly folder: string;
  readonly manifest: WorkspaceManifest;
}

export interface StageContents {
  readonly manifest?: WorkspaceManifest;
  /** Declarations, relative to the package's folder. */
  readonly types?: readonly string[];
  readonly change?: (text: string, file: string) => string;
}

/** Folders beside `dist` that ship, with the endings of their files; "" means every file. */
const ASSETS: readonly (readonly [folder: string, endings: readonly string[]])[] = [
  ["bin", [".cjs"]],
  // The built page of the console.
  ["page", [""]],
  ["python", [".py"]],
  // Kernels are compiled for the GPU at hand.
  ["kernels", [".cu", ".cuh"]],
  // Version folders of a model repository hold `.gitkeep` only.
  ["templates", [""]],
];

const RELATIVE_TYPES = /\b(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)\.[jt]s"/g;

/** Fills an empty folder for `npm pack`. @throws Error when a module imports a package that users would not get */
export function stagePackage(
  root: string,
  { folder, manifest: own }: WorkspacePackage,
  imported: ReadonlySet<string>,
  stage: string,
  {
    manifest = publishedManifest(own),
    types = declarations(join(root, folder), own),
    change = (text) => text,
  }: StageContents = {},
): void {
  const home = join(root, folder);
  emptyFolder(stage);
  for (const file of [...builtModules(home), ...types]) {
    copyBuilt(stage, home, [file], (text) => change(text, file));
  }
  copyInto(stage, home, assets(home));
  copyInto(stage, root, WORKSPACE_NOTICES);
  writeJson(join(stage, "package.json"), manifest);
  expectDeclared(manifest, imported);
}

/** Declarations that the main module's reach, types of other modules included: what users of a library compile against. */
function declarations(home: string, { exports }: WorkspaceManifest): readonly string[] {
  const found = new Set(typeFiles(exports?.["."] ?? "").map((file) => posix.normalize(file)));
  for (const file of found) {
    const text = readFileSync(join(home, file), "utf8");
    for (const [, path = ""] of text.matchAll(RELATIVE_TYPES)) {
      found.add(posix.join(posix.dirname(file), `${path}.d.ts`));
    }
  }
  return [...found].sort();
}

/** Files under the condition "types", which may stand within others (Node.js, "Nested conditions"). */
function typeFiles(targets: string | ConditionalFiles): string[] {
  if (typeof targets === "string") return [];
  return Object.entries(targets).flatMap(([condition, target]) => {
    if (typeof target !== "string") return typeFiles(target);
    return condition === "types" ? [target] : [];
  });
}

/** The build leaves in `dist` what others reach, and nothing else. */
function builtModules(home: string): string[] {
  const dist = join(home, "dist");
  if (!existsSync(dist)) return [];
  return filesBelow(dist)
    .filter((file) => file.endsWith(".js"))
    .map((file) => join("dist", file));
}

function assets(home: string): string[] {
  return ASSETS.filter(([folder]) => existsSync(join(home, folder))).flatMap(([folder, endings]) =>
    filesBelow(join(home, folder))
      .filter((file) => endings.some((ending) => file.endsWith(ending)))
      .map((file) => join(folder, file)),
  );
}

/** @throws Error when a package imports a package that its users would not get */
function expectDeclared(manifest: WorkspaceManifest, imported: ReadonlySet<string>): void {
  const declared = {
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.peerDependencies,
    [manifest.name]: manifest.version,
  };
  const missing = [...imported].filter((name) => !Object.hasOwn(declared, name));
  if (missing.length > 0) {
    throw new Error(`${manifest.name}: imports ${missing.join(", ")}, expected among its published dependencies`);
  }
}
