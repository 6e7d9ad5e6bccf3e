/** Builds the modules of this folder that Node loads into a server under test, for Node without a loader of TypeScript. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const NAMES = ["preload", "hooks", "faulty-runner"] as const;

/** `folder` then has `preload.mjs`. */
export async function buildPreload(folder: string): Promise<void> {
  await build({
    entryPoints: NAMES.map((name) => fileURLToPath(new URL(`${name}.ts`, import.meta.url))),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    conditions: ["nereid-source"],
    external: ["koffi"],
  });
}
