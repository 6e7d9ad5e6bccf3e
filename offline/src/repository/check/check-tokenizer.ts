/** Checks a model of the backend `tokenizer`: do its parameters lead to a readable tokenizer. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseTokenizerSettings } from "@nereid/server/backend/tokenizer/tokenizer-settings";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { hasTokenizerFiles, loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import type { ExaminedModel } from "./examined-model.ts";

const CONVERT =
  "a folder with tokenizer.json; where there is only tokenizer.model, save it once with transformers' AutoTokenizer";

export async function checkTokenizer(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  let folders: readonly string[];
  try {
    folders = parseTokenizerSettings({ config, modelFolder: model.path, versionFolder }).folders;
  } catch (error) {
    model.addServerError(error);
    return;
  }
  const found = folders.find(hasTokenizerFiles);
  if (found === undefined) {
    const [first = ""] = folders;
    const written = config.parameters.tokenizer_dir?.string_value ?? "";
    const isUnset = written === "" || written.startsWith("${");
    const state = existsSync(first) ? "holds no tokenizer.json" : "does not exist";
    const problem = isUnset ? "tokenizer_dir is not set" : `tokenizer_dir leads to ${first}, which ${state}`;
    model.addAtParameter("error", "tokenizer_dir", problem, `Set tokenizer_dir to ${CONVERT}`);
    return;
  }
  try {
    await loadTokenizer(found);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    model.add("error", problem, "Download the tokenizer's files again", {
      file: found.endsWith(".gguf") ? found : join(found, "tokenizer.json"),
    });
  }
}
