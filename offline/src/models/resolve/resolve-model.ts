/** Finds the model of a name wherever it may be, and fetches it when it is not here. Modules of the network are loaded for names of it. */
import { existsSync } from "node:fs";
import { parseModelName } from "../name/model-name.ts";
import { resolvePath } from "./resolve-path.ts";
import type { ResolveContext, ResolvedModel } from "./resolved-model.ts";

/** @throws ToolError that says what was looked for, where, and what would help */
export async function resolveModel(name: string, context: ResolveContext): Promise<ResolvedModel> {
  const aliases = await context.store.aliases();
  const meant = aliases.get(name);
  if (meant === undefined) return resolveExact(name, context);
  const resolved = await resolveExact(meant, context);
  return { ...resolved, name };
}

async function resolveExact(name: string, context: ResolveContext): Promise<ResolvedModel> {
  const parsed = parseModelName(name, { endpoint: context.hub.endpoint, exists: existsSync });
  switch (parsed.kind) {
    case "path":
      return resolvePath(parsed.path);
    case "hub":
      return (await import("./resolve-hub.ts")).resolveHub(name, parsed, context);
    case "url":
      return (await import("./resolve-url.ts")).resolveUrl(name, parsed.url, context);
    case "registry":
      return (await import("./resolve-registry.ts")).resolveRegistry(name, parsed, context);
  }
}
