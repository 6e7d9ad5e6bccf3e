/**
 * Builds the packages that users install, the same bytes from the same sources: `npm run pack [-- --out=<folder>]` puts
 * them into build/packages. Names given after that limit it to folders of the workspace, or to `onnxruntime-<os>-<cpu>`. `--built` takes
 * the build that is there.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { workspaceModules } from "./bundle/workspace-modules.ts";
import {
  onnxRuntimePackage,
  PLATFORMS,
  publishedUmbrellaManifest,
  type WorkspaceManifest,
} from "./packaging/published-manifest.ts";
import { readJson } from "./packaging/stage-files.ts";
import { stageOnnxRuntime } from "./packaging/stage-onnxruntime.ts";
import { stagePackage, type WorkspacePackage } from "./packaging/stage-package.ts";
import { stageServer } from "./packaging/stage-server.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const { workspaces }: { readonly workspaces: readonly string[] } = readJson(join(ROOT, "package.json"));

type Stage = (folder: string) => Promise<void> | void;

function stageOf(member: WorkspacePackage, imported: ReadonlySet<string>): Stage {
  if (member.folder === "server") return (folder) => stageServer(ROOT, member, imported, folder);
  const contents = member.folder === "nereid" ? { manifest: publishedUmbrellaManifest(member.manifest) } : {};
  return (folder) => stagePackage(ROOT, member, imported, folder, contents);
}

async function allStages(): Promise<ReadonlyMap<string, Stage>> {
  const members = workspaces.map((folder) => {
    return { folder, manifest: readJson<WorkspaceManifest>(join(ROOT, folder, "package.json")) };
  });
  const modules = await workspaceModules(ROOT, members);
  return new Map([
    ...members.map((member): [string, Stage] => [
      member.folder,
      stageOf(member, modules.get(member.manifest.name)?.packages ?? new Set<string>()),
    ]),
    ...PLATFORMS.map((platform): [string, Stage] => [
      onnxRuntimePackage(platform).replace(/^.*\//, ""),
      (folder) => stageOnnxRuntime(ROOT, platform, folder),
    ]),
  ]);
}

const { values, positionals } = parseArgs({
  options: { out: { type: "string" }, built: { type: "boolean", default: false } },
  allowPositionals: true,
});
const out = resolve(values.out ?? join(ROOT, "build", "packages"));
if (!values.built) run("npm", ["run", "--silent", "build"], ROOT);
if (positionals.length === 0) rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const stages = await allStages();
const folders: string[] = [];
for (const name of positionals.length > 0 ? positionals : stages.keys()) {
  const stage = stages.get(name);
  if (stage === undefined) throw new Error(`no package "${name}"; there are ${[...stages.keys()].join(", ")}`);
  // Beside the result, so that two runs with different results do not meet.
  const folder = join(out, ".stage", name);
  await stage(folder);
  folders.push(folder);
}
run("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", out, ...folders], out);
rmSync(join(out, ".stage"), { recursive: true });
if (positionals.length === 0) console.log(`\nnpm install -g ${installable().join(" ")}`);

/** Tarballs that npm accepts on this machine: packages with libraries name their platform. */
function installable(): readonly string[] {
  const others = PLATFORMS.filter(({ os, cpu }) => os !== process.platform || cpu !== process.arch);
  const suffixes = others.map((platform) => `-${onnxRuntimePackage(platform).replace(/^.*\/onnxruntime-/, "")}-`);
  const tarballs = readdirSync(out).filter((name) => name.endsWith(".tgz"));
  return tarballs.filter((name) => !suffixes.some((suffix) => name.includes(suffix))).map((name) => join(out, name));
}

function run(program: string, args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync(program, args, { cwd, stdio: "inherit" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} in ${cwd}: expected success, got ${error ?? status}`);
}
