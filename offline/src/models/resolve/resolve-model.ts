/** Finds the model of a name wherever it may be, and fetches it when it is not here. */
import { existsSync } from "node:fs";
import { parseModelName } from "../name/model-name.ts";
import { resolveHub } from "./resolve-hub.ts";
import { resolvePath } from "./resolve-path.ts";
import { resolveRegistry } from "./resolve-registry.ts";
import { resolveUrl } from "./resolve-url.ts";
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
      return resolveHub(name, parsed, context);
    case "url":
      return resolveUrl(name, parsed.url, context);
    case "registry":
      return resolveRegistry(name, parsed, context);
  }
}
