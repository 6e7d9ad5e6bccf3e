/** The server's package: its modules with koffi's JavaScript in place of the package koffi. */
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix } from "node:path";
import { build } from "esbuild";
import { publishedServerManifest } from "./published-manifest.ts";
import { readJson } from "./stage-files.ts";
import { stagePackage, type WorkspacePackage } from "./stage-package.ts";

/** Types that `nereid types` writes beside models, and the types of the package, which need no others. */
const TYPES = ["dist/src/backend/typescript/model-api.d.ts", "dist/src/index.d.ts"];
const KOFFI = "dist/vendor/koffi.js";
const RULE = "-".repeat(70);
const KOFFI_IMPORT = /(\bfrom )"koffi"/g;

export async function stageServer(
  root: string,
  server: WorkspacePackage,
  imported: ReadonlySet<string>,
  stage: string,
): Promise<void> {
  const packages = new Set([...imported].filter((name) => name !== "koffi"));
  stagePackage(root, server, packages, stage, {
    manifest: publishedServerManifest(server.manifest),
    types: TYPES,
    change: pointToBundle,
  });
  await bundleKoffi(join(root, server.folder), stage);
}

function pointToBundle(text: string, file: string): string {
  return text.replace(KOFFI_IMPORT, (_, from: string) => `${from}"${posix.relative(posix.dirname(file), KOFFI)}"`);
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
