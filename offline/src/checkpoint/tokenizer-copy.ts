/** Copies a model's tokenizer beside the converted model, so that grammars and stop words need no second folder. */
import { copyFile } from "node:fs/promises";
import { join } from "node:path";

const FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"];

/** Existing tokenizer files. */
export async function copyTokenizer(from: string, to: string): Promise<void> {
  for (const name of FILES) {
    await copyFile(join(from, name), join(to, name)).catch((error: unknown) => {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
    });
  }
}
