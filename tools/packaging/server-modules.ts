/** Modules of the server's package that the add-on packages import. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { filesBelow } from "./stage-files.ts";

/** Folders of the packages that the server loads on demand. */
export const ADD_ONS: readonly string[] = ["object-stores", "images", "retrieval", "onnx-tools", "offline"];
const SERVER_IMPORT = /"@nereid\/server\/([^"]+)"/g;
const NO_MODULE = /\.json$|^bin\//;

/** Paths below `server/dist`, from the built add-ons; tests do not count. */
export function serverModules(root: string): string[] {
  const modules = new Set<string>();
  for (const name of ADD_ONS) {
    for (const file of builtModules(root, name)) {
      const text = readFileSync(join(root, name, "dist", file), "utf8");
      for (const [, module = ""] of text.matchAll(SERVER_IMPORT)) if (!NO_MODULE.test(module)) modules.add(module);
    }
  }
  return [...modules].sort().map((module) => (module.startsWith("kernels/") ? `${module}.js` : `src/${module}.js`));
}

/** Built modules of a package whose sources still exist, relative to its `dist`. */
export function builtModules(root: string, name: string): string[] {
  return filesBelow(join(root, name, "src"))
    .filter((file) => /(?<!\.(?:test|bench|test-support))\.ts$/.test(file))
    .map((file) => file.replace(/\.ts$/, ".js"));
}
