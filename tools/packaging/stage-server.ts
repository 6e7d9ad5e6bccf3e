/** The server's package: built modules that its programs and the add-ons reach, koffi's JavaScript, the Python stub. */
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix } from "node:path";
import { build } from "esbuild";
import { moduleGraph } from "./module-graph.ts";
import { publishedServerManifest, type WorkspaceManifest } from "./published-manifest.ts";
import { serverModules } from "./server-modules.ts";
import { copyBuilt, copyInto, emptyFolder, filesBelow, readJson, writeJson } from "./stage-files.ts";
import { expectDeclared } from "./stage-library.ts";

/** Modules that commands and child processes start with. */
const ENTRIES = [
  "dist/src/index.js",
  "dist/src/cli/nereid.js",
  "dist/src/cli/serve.js",
  "dist/src/main/engine-host.js",
  "dist/src/engine/guide/grammar-worker.js",
  "dist/src/protocol/http/json/json-thread.js",
  "dist/src/engine/ranks/rank-worker.js",
  "dist/src/backend/typescript/worker/model-worker.js",
  "dist/src/backend/typescript/worker/type-stripping-hooks.js",
];
/** What `nereid types` writes beside models, and the types of the package, which need no others. */
const TYPES = ["dist/src/backend/typescript/model-api.d.ts", "dist/src/index.d.ts"];
const KOFFI = "dist/vendor/koffi.js";
const RULE = "-".repeat(70);
const KOFFI_IMPORT = /(\bfrom )"koffi"/g;

export async function stageServer(root: string, stage: string): Promise<void> {
  const folder = join(root, "server");
  emptyFolder(stage);
  const entries = [...ENTRIES, ...serverModules(root).map((module) => `dist/${module}`)];
  const { files } = await moduleGraph(folder, entries);
  for (const file of files) copyBuilt(stage, folder, [file], (text) => pointToBundle(text, file));
  copyInto(stage, folder, [
    ...programs(folder, "bin", ".cjs"),
    ...programs(folder, "python", ".py"),
    // Kernels are compiled for the GPU at hand.
    ...programs(folder, "kernels", ".cu"),
    ...programs(folder, "kernels", ".cuh"),
  ]);
  copyBuilt(stage, folder, TYPES);
  copyInto(stage, root, ["LICENSE"]);
  await bundleKoffi(folder, stage);
  const manifest = publishedServerManifest(readJson<WorkspaceManifest>(join(folder, "package.json")));
  writeJson(join(stage, "package.json"), manifest);
  const { packages } = await moduleGraph(stage, entries);
  expectDeclared(manifest, packages);
}

function pointToBundle(text: string, file: string): string {
  return text.replace(KOFFI_IMPORT, (_, from: string) => `${from}"${posix.relative(posix.dirname(file), KOFFI)}"`);
}

function programs(folder: string, part: string, ending: string): string[] {
  return filesBelow(join(folder, part))
    .filter((file) => file.endsWith(ending))
    .map((file) => join(part, file));
}

/**
 * koffi would compile itself at install time where it finds no prebuilt part. Its JavaScript looks for that part from
 * wherever it lies, so it can lie in our package, and only the part itself is installed.
 */
async function bundleKoffi(folder: string, stage: string): Promise<void> {
  const home = dirname(createRequire(join(folder, "package.json")).resolve("koffi"));
  await build({
    entryPoints: [join(home, "index.js")],
    outfile: join(stage, KOFFI),
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20.19",
    legalComments: "inline",
    logLevel: "warning",
  });
  const notice = readFileSync(join(folder, "..", "NOTICE"), "utf8");
  const { version }: { readonly version: string } = readJson(join(home, "package.json"));
  const license = readFileSync(join(home, "LICENSE.txt"), "utf8");
  const text = `${notice}\n${RULE}\n\n${KOFFI} is koffi ${version} (https://koffi.dev/), under this licence:\n\n${license}`;
  writeFileSync(join(stage, "NOTICE"), text);
}
