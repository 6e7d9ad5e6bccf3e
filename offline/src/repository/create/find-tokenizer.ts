/** Finds the tokenizer of a model: in a folder, beside its files, or in a GGUF file. */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { hasTokenizerFiles } from "@nereid/server/formats/tokenizer/tokenizer-files";

/** A folder with tokenizer.json, before the tokenizer of a GGUF file. @throws ToolError when there is neither */
export async function findTokenizer(given: string | undefined, model: string): Promise<string> {
  const isFolder = (await stat(model)).isDirectory();
  const folder = resolve(given ?? (isFolder ? model : dirname(model)));
  if (existsSync(join(folder, "tokenizer.json"))) return folder;
  if (given === undefined && hasTokenizerFiles(model)) return model;
  throw new ToolError(`There is no tokenizer.json in ${folder}`, {
    fix: "Give --tokenizer with the folder of the model's Hugging Face tokenizer; where there is only tokenizer.model, save it once with transformers' AutoTokenizer",
  });
}
