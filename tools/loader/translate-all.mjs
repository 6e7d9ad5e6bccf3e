/**
 * Fills the loader's cache with every TypeScript file of the folders given: `node translate-all.mjs FOLDERS`. In a fresh clone each of
 * 200 test processes would load the translator otherwise, and several would translate the same files at the same time.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { load } from "./hooks.mjs";

for (const folder of process.argv.slice(2)) {
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!/(?<!\.d)\.ts$/.test(path) || path.includes("node_modules")) continue;
    load(pathToFileURL(join(folder, path)).href);
  }
}
