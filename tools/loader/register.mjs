/**
 * Lets Node.js 20 run TypeScript: `node --import <this file> …`. Tests use it in place of tsx, which takes twice the CPU time
 * for a program of 500 modules: types become spaces, so that no source map is made, read or applied.
 *
 * With `--expose-internals` Node.js 20 runs the hooks in the thread that imports. `module.register` starts a thread for them, which
 * doubles the CPU time of such a program again.
 */
import { register } from "node:module";
import process from "node:process";
import { hookLoader } from "./hook-loader.mjs";

const HOOKS = new URL("./hooks.mjs", import.meta.url).href;

if (process.execArgv.includes("--expose-internals") && process.versions.node.startsWith("20.")) {
  hookLoader(HOOKS, await import(HOOKS));
} else {
  register(HOOKS);
}
