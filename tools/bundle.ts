/** Builds the JavaScript of all packages of the workspace; the compiler writes their declarations. `npm run build` runs both. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundlePackage, writeBundle } from "./bundle/bundle-package.ts";
import { type EntryManifest, type WorkspaceMember, workspaceModules } from "./bundle/workspace-modules.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, "utf8"));
}

const { workspaces } = readJson<{ readonly workspaces: readonly string[] }>(join(ROOT, "package.json"));
const members = workspaces.map((folder): WorkspaceMember => {
  return { folder, manifest: readJson<EntryManifest>(join(ROOT, folder, "package.json")) };
});
const modules = await workspaceModules(ROOT, members);
for (const { folder, manifest } of members) {
  const { entries = [] } = modules.get(manifest.name) ?? {};
  if (entries.length === 0) continue;
  const home = join(ROOT, folder);
  await writeBundle(home, await bundlePackage(home, entries));
}
