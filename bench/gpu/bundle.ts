/**
 * Packs `main.ts` with its imports into one file, beside the FFI library: `node --import tsx bench/gpu/bundle.ts <folder>`.
 * With a Node binary in it the folder runs on a machine that has neither Node nor a network. The sources of the kernels
 * stay where they are: NEREID_KERNELS names them there.
 */
import { cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const [folder = ".gpu"] = process.argv.slice(2);

/** All exported lists of checks as one. */
const allChecks: Plugin = {
  name: "cuda-checks",
  setup(builder) {
    builder.onResolve({ filter: /^virtual:cuda-checks$/ }, () => ({ path: "all", namespace: "cuda-checks" }));
    builder.onLoad({ filter: /.*/, namespace: "cuda-checks" }, () => {
      const all = readdirSync(join(ROOT, "server/kernels"), { recursive: true, encoding: "utf8" });
      const files = all.filter((file) => file.endsWith(".cuda-check.ts")).sort();
      const imports = files.map((file, i) => `import { cudaChecks as checks${i} } from "./server/kernels/${file}";`);
      const list = files.map((_, i) => `...checks${i}`).join(", ");
      return { contents: `${imports.join("\n")}\nexport const cudaChecks = [${list}];`, resolveDir: ROOT };
    });
  },
};

await build({
  entryPoints: [join(ROOT, "bench/gpu/main.ts")],
  outfile: join(folder, "main.mjs"),
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  conditions: ["nereid-source"],
  external: ["koffi"],
  plugins: [allChecks],
});
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
