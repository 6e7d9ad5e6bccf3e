/** Hooks of Node's module loader: the two modules that make runners for GPUs get faulty-runner.ts in place of the real maker. */
import type { ResolveHook } from "node:module";

const MAKER = /\/engine\/cuda\/create-runner\.[jt]s$/;
/** A build moves `follow` into a chunk. */
const USERS = /\/(main\/engine-host|engine\/ranks\/follow|chunks\/[\w-]+)\.[jt]s$/;

export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  const resolved = await nextResolve(specifier, context);
  if (!MAKER.test(resolved.url) || !USERS.test(context.parentURL ?? "")) return resolved;
  const stand = new URL("faulty-runner.mjs", import.meta.url);
  stand.searchParams.set("replaces", resolved.url);
  return { ...resolved, url: stand.href, format: "module" };
};
