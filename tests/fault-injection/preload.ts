/** `NODE_OPTIONS=--import=<this module, built>` breaks a GPU of a server of the published package: see gpu-fault.ts. */
import { register } from "node:module";

register(new URL("hooks.mjs", import.meta.url));
