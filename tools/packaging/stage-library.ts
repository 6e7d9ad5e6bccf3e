/** Packages of JavaScript, types and templates: wire, client and the add-ons of the server. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { moduleGraph } from "./module-graph.ts";
import { publishedManifest, type WorkspaceManifest } from "./published-manifest.ts";
import { builtModules } from "./server-modules.ts";
import { copyBuilt, copyInto, emptyFolder, filesBelow, readJson, WORKSPACE_NOTICES, writeJson } from "./stage-files.ts";

/** Puts modules and their types, as sources have them now, beside their manifest. */
export async function stageLibrary(root: string, name: string, stage: string): Promise<void> {
  const folder = join(root, name);
  emptyFolder(stage);
  const modules = builtModules(root, name).map((file) => `dist/${file}`);
  copyBuilt(stage, folder, [...modules, ...modules.map((file) => file.replace(/\.js$/, ".d.ts"))]);
  copyInto(
    stage,
    folder,
    filesOf(folder, "templates").map((file) => join("templates", file)),
  );
  copyInto(stage, root, WORKSPACE_NOTICES);
  const manifest = publishedManifest(readJson<WorkspaceManifest>(join(folder, "package.json")));
  writeJson(join(stage, "package.json"), manifest);
  const { packages } = await moduleGraph(stage, modules);
  expectDeclared(manifest, packages);
}

/** Templates have empty version folders, which a repository needs. */
function filesOf(folder: string, part: string): string[] {
  return existsSync(join(folder, part)) ? filesBelow(join(folder, part)) : [];
}

/** @throws Error when a package imports what its users would not get */
export function expectDeclared(manifest: WorkspaceManifest, imported: ReadonlySet<string>): void {
  const declared = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies };
  const missing = [...imported].filter((name) => !Object.hasOwn(declared, name));
  if (missing.length > 0) {
    throw new Error(`${manifest.name}: imports ${missing.join(", ")}, expected among its published dependencies`);
  }
}
