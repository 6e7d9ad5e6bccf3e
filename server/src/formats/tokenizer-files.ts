/** Reads the files of a Hugging Face tokenizer folder. Knows no encoding. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { createTokenizer, type Tokenizer } from "./tokenizer.ts";
import { expectRecord, tokenText } from "./tokenizer-json.ts";

/** The largest published tokenizer.json has 35 MB. */
const MAX_TOKENIZER_FILE_BYTES: number = 256 * 1024 * 1024;

/** @throws Error naming the file and what is wrong with it */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  const path = join(folder, "tokenizer.json");
  const tokenizer = await readJson(path);
  if (tokenizer === undefined) throw new Error(`${path}: no such file; a Hugging Face tokenizer folder has one`);
  const config = expectRecord((await readJson(join(folder, "tokenizer_config.json"))) ?? {}, "tokenizer_config.json");
  const map = expectRecord((await readJson(join(folder, "special_tokens_map.json"))) ?? {}, "special_tokens_map.json");
  const chatTemplate = await readText(join(folder, "chat_template.jinja"));
  try {
    return createTokenizer({ tokenizer, config: withNamedTokens(config, map), chatTemplate });
  } catch (cause) {
    throw new Error(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** Older folders name bos, eos and pad in special_tokens_map.json only. */
function withNamedTokens(config: Record<string, unknown>, map: Record<string, unknown>): Record<string, unknown> {
  const named = { ...config };
  for (const name of ["bos_token", "eos_token", "pad_token"])
    named[name] = tokenText(config, name) ?? tokenText(map, name);
  return named;
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: not valid JSON`, { cause });
  }
}

/** Undefined when the file does not exist. */
async function readText(path: string): Promise<string | undefined> {
  const size = await stat(path).then(
    (stats) => stats.size,
    () => undefined,
  );
  if (size === undefined) return undefined;
  if (size > MAX_TOKENIZER_FILE_BYTES) {
    throw new Error(`${path}: ${size} bytes, expected at most ${MAX_TOKENIZER_FILE_BYTES}`);
  }
  return readFile(path, "utf8");
}
