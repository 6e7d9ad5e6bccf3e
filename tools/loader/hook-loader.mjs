/**
 * Hooks in the loader of ES modules of Node.js 20 itself, in place of its two methods that a hook stands for (nodejs/node v20,
 * lib/internal/modules/esm/loader.js). Needs `--expose-internals`.
 */
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

/** `url`: the module of the hooks `resolve` and `load`, which are as in Node's documentation of customization hooks. */
export function hookLoader(url, { resolve, load }) {
  const loader = require("internal/modules/esm/loader").getOrInitializeCascadedLoader();
  const own = Object.getPrototypeOf(loader);
  loader.resolve = async (specifier, parentURL, importAttributes) =>
    resolve(`${specifier}`, { parentURL, importAttributes }, (next, context) =>
      own.resolve.call(loader, next, context.parentURL, context.importAttributes),
    );
  loader.load = async (from, context) => {
    const loaded = await load(from, context, (next, given) => own.load.call(loader, next, given));
    return { responseURL: from, ...loaded };
  };
  // Hooks that a program registers come before these: in the thread that Node starts for them, all are in order.
  loader.register = (...others) => {
    for (const name of ["resolve", "load", "register"]) delete loader[name];
    loader.register(url);
    return loader.register(...others);
  };
}
