/** Location of the repository templates in this installation. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ToolError } from "@nereid/server/files/tool-error";

/** The models of a repository, callers after those they call. */
export const TEMPLATE_MODELS: readonly string[] = [
  "preprocessing",
  "postprocessing",
  "tensorrt_llm",
  "tensorrt_llm_bls",
  "ensemble",
];

/** @throws ToolError */
export function templateFolder(): string {
  const home = import.meta.resolve("@nereid/offline/package.json");
  const path = fileURLToPath(new URL("templates/inflight_batcher_llm", home));
  if (existsSync(path)) return path;
  throw new ToolError(`The templates are missing from the installation: looked for ${path}`, {
    fix: "Install it again",
  });
}
