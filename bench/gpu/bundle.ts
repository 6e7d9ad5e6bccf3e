/**
 * Packs `main.ts` with its imports into one file, beside the FFI library: `node --import tsx bench/gpu/bundle.ts <folder>`.
 * With a Node binary in it the folder runs on a machine that has neither Node nor a network. The sources of the kernels
 * stay where they are: NEREID_KERNELS names them there.
 */
import { cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { buildPreload } from "../../tests/fault-injection/build-preload.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const [folder = ".gpu"] = process.argv.slice(2);

await build({
  entryPoints: {
    main: join(ROOT, "bench/gpu/main.ts"),
    host: join(ROOT, "server/src/main/engine-host.ts"),
    "rank-worker": join(ROOT, "server/src/engine/ranks/rank-worker.ts"),
    "rank-sums": join(ROOT, "bench/gpu/rank-sums.ts"),
    onnx: join(ROOT, "bench/gpu/onnx.ts"),
    served: join(ROOT, "bench/gpu/served.ts"),
    streamed: join(ROOT, "bench/gpu/streamed.ts"),
    traffic: join(ROOT, "bench/gpu/traffic/main.ts"),
    "seed-comparison": join(ROOT, "bench/gpu/seed-comparison/compare.ts"),
  },
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  conditions: ["nereid-source"],
  external: ["koffi"],
  // Packages in the old module format ask for Node's own modules by a function.
  banner: {
    js: 'import { createRequire as newRequire } from "node:module"; const require = newRequire(import.meta.url);',
  },
});
await buildPreload(join(folder, "fault"));
for (const path of ["koffi/package.json", "koffi/index.js", "koffi/src/koffi/index.js", "@koromix/koffi-linux-x64"]) {
  const to = join(folder, "node_modules", path);
  mkdirSync(join(to, ".."), { recursive: true });
  cpSync(join(ROOT, "node_modules", path), to, {
    recursive: true,
    dereference: true,
    filter: (source) => !source.includes("musl"),
  });
}
cpSync(join(ROOT, "node_modules/koffi/src/koffi/src"), join(folder, "node_modules/koffi/src/koffi/src"), {
  recursive: true,
  filter: (source) => !/\.(cc|hh|inc|S|asm|c|h)$/.test(source),
});
