/**
 * Keeps `import.meta.url` true for modules that a bundle moves: assets and programs of workers lie beside the module that
 * names them. Each use becomes a mark in the source, and each mark in the output an address relative to the file it is in.
 */
import { readFile } from "node:fs/promises";
import { posix, relative } from "node:path";
import type { Plugin } from "esbuild";

const ADDRESS = /\bimport\.meta\.url\b/g;
const MARK = /\bimport\.meta\.moduleAddress\("([^"]+)"\)/g;

/** `sources` holds the package's modules; a mark names a module by the path that it would have when built alone. */
export function markAddresses(sources: string): Plugin {
  return {
    name: "module-address",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const text = await readFile(path, "utf8");
        if (!text.includes("import.meta.url")) return undefined;
        const built = relative(sources, path).replace(/\.ts$/, ".js");
        return { contents: text.replace(ADDRESS, `import.meta.moduleAddress("${built}")`), loader: "ts" };
      });
    },
  };
}

/** Text of an output file with its marks resolved; `file` is its path relative to the output folder. */
export function resolveAddresses(text: string, file: string): string {
  return text.replace(MARK, (_, module: string) => {
    if (module === file) return "import.meta.url";
    return `new URL("${relativePath(file, module)}", import.meta.url).href`;
  });
}

function relativePath(from: string, to: string): string {
  const path = posix.relative(posix.dirname(from), to);
  return path.startsWith(".") ? path : `./${path}`;
}
