/** Packages of JavaScript and types alone: wire and client. */
import { join } from "node:path";
import { moduleGraph } from "./module-graph.ts";
import { publishedManifest, type WorkspaceManifest } from "./published-manifest.ts";
import { copyBuilt, copyInto, emptyFolder, filesBelow, readJson, WORKSPACE_NOTICES, writeJson } from "./stage-files.ts";

/** Puts modules and their types, as sources have them now, beside their manifest. */
export async function stageLibrary(root: string, name: string, stage: string): Promise<void> {
  const folder = join(root, name);
  emptyFolder(stage);
  const sources = filesBelow(join(folder, "src")).filter((file) => /(?<!\.(?:test|bench))\.ts$/.test(file));
  const built = sources.flatMap((file) => [file.replace(/\.ts$/, ".js"), file.replace(/\.ts$/, ".d.ts")]);
  copyBuilt(
    stage,
    folder,
    built.map((file) => `dist/${file}`),
  );
  copyInto(stage, root, WORKSPACE_NOTICES);
  const manifest = publishedManifest(readJson<WorkspaceManifest>(join(folder, "package.json")));
  writeJson(join(stage, "package.json"), manifest);
  const { packages } = await moduleGraph(stage, ["dist/index.js"]);
  expectDeclared(manifest, packages);
}

/** @throws Error when a package imports what its users would not get */
export function expectDeclared(manifest: WorkspaceManifest, imported: ReadonlySet<string>): void {
  const declared = { ...manifest.dependencies, ...manifest.optionalDependencies };
  const missing = [...imported].filter((name) => !Object.hasOwn(declared, name));
  if (missing.length > 0) {
    throw new Error(`${manifest.name}: imports ${missing.join(", ")}, expected among its published dependencies`);
  }
}
