/** Where the templates of model repositories lie in this installation. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ToolError } from "../tool-error.ts";

/** The models of a repository, callers after those they call. */
export const TEMPLATE_MODELS: readonly string[] = [
  "preprocessing",
  "postprocessing",
  "tensorrt_llm",
  "tensorrt_llm_bls",
  "ensemble",
];

/** Sources and builds lie at different depths. @throws ToolError */
export function templateFolder(): string {
  const candidates = ["../../../templates/inflight_batcher_llm", "../../../../templates/inflight_batcher_llm"];
  const paths = candidates.map((path) => fileURLToPath(new URL(path, import.meta.url)));
  const found = paths.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new ToolError(`The templates are missing from the installation: looked for ${paths.join(", ")}`, {
    fix: "Install it again",
  });
}
