/** Decides whether an output folder may be replaced: only output of an earlier run of these tools. */
import { readdir } from "node:fs/promises";

const OWN_FILES =
  /^(config\.json|rank\d{1,5}\.(safetensors|engine)|tokenizer(_config)?\.json|special_tokens_map\.json|generation_config\.json|chat_template\.jinja)$/;

export async function existingOutput(folder: string): Promise<"replace" | "refuse"> {
  const names = await readdir(folder).catch(() => []);
  return names.every((name) => OWN_FILES.test(name)) ? "replace" : "refuse";
}
