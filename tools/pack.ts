/**
 * Builds the packages that users install, the same bytes from the same sources: `npm run pack [-- --out=<folder>]` puts
 * them into build/packages. Names given after that limit it to folders of the workspace, or to `onnxruntime-<os>-<cpu>`.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { onnxRuntimePackage, PLATFORMS } from "./packaging/published-manifest.ts";
import { ADD_ONS } from "./packaging/server-modules.ts";
import { stageLibrary } from "./packaging/stage-library.ts";
import { stageOnnxRuntime } from "./packaging/stage-onnxruntime.ts";
import { stageServer } from "./packaging/stage-server.ts";
import { stageUmbrella } from "./packaging/stage-umbrella.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const STAGES: ReadonlyMap<string, (stage: string) => Promise<void> | void> = new Map([
  ...["wire", "client", ...ADD_ONS].map((name): [string, (stage: string) => Promise<void>] => [
    name,
    (stage) => stageLibrary(ROOT, name, stage),
  ]),
  ["server", (stage) => stageServer(ROOT, stage)],
  ["nereid", (stage) => stageUmbrella(ROOT, stage)],
  ...PLATFORMS.map((platform): [string, (stage: string) => void] => [
    onnxRuntimePackage(platform).replace(/^.*\//, ""),
    (stage) => stageOnnxRuntime(ROOT, platform, stage),
  ]),
]);

const { values, positionals } = parseArgs({ options: { out: { type: "string" } }, allowPositionals: true });
const out = resolve(values.out ?? join(ROOT, "build", "packages"));
run(join(ROOT, "node_modules", ".bin", "tsc"), ["-b", "wire", "client", "server", ...ADD_ONS], ROOT);
if (positionals.length === 0) rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const name of positionals.length > 0 ? positionals : STAGES.keys()) {
  const stage = STAGES.get(name);
  if (stage === undefined) throw new Error(`no package "${name}"; there are ${[...STAGES.keys()].join(", ")}`);
  // Beside the result, so that two runs with different results do not meet.
  const folder = join(out, ".stage", name);
  await stage(folder);
  run("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", out], folder);
}
rmSync(join(out, ".stage"), { recursive: true });

function run(program: string, args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync(program, args, { cwd, stdio: "inherit" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} in ${cwd}: expected success, got ${error ?? status}`);
}
