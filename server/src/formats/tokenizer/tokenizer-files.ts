/**
 * Reads the files of a Hugging Face tokenizer folder, or the tokenizer metadata of a GGUF file. Sources: tokenizers
 * library, and transformers' tokenizer_config.json. Knows no encoding.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { findGguf } from "../gguf/find-file.ts";
import { readGgufSummary } from "../gguf/gguf.ts";
import { ggufTokenizerFiles } from "../gguf/tokenizer.ts";
import { SharedObjects } from "./shared-objects.ts";
import { createTokenizer, type Tokenizer, type TokenizerFiles } from "./tokenizer.ts";
import { expectRecord, tokenText } from "./tokenizer-json.ts";

/** The largest published tokenizer.json has 35 MB. */
const MAX_TOKENIZER_FILE_BYTES: number = 256 * 1024 * 1024;

/** Whether a folder or GGUF file has a tokenizer to load. Its validity is checked when it is loaded. */
export function hasTokenizerFiles(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory() !== true) return stats !== undefined && path.endsWith(".gguf");
  return existsSync(join(path, "tokenizer.json")) || readdirSync(path).some((name) => name.endsWith(".gguf"));
}

/**
 * `path` is a folder or a GGUF file. Requests for the same files get the same tokenizer, as long as somebody uses it.
 * @throws Error naming the file and what is wrong with it
 */
export function loadTokenizer(path: string): Promise<Tokenizer> {
  return shared.get(stateOf(path), () => createFrom(path));
}

const shared = new SharedObjects<Tokenizer>();
const FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"] as const;

/** Changes with the files that are read. */
function stateOf(path: string): string {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const ggufs = isFolder ? readdirSync(path).filter((name) => name.endsWith(".gguf")) : [];
  const files = isFolder ? [...FILES, ...ggufs].map((name) => join(path, name)) : [path];
  const states = files.map((file) => {
    const { mtimeMs, size } = statSync(file, { throwIfNoEntry: false }) ?? {};
    return `${file} ${mtimeMs} ${size}`;
  });
  return [path, ...states].join("\n");
}

async function createFrom(path: string): Promise<Tokenizer> {
  const { at, ...files } = await readTokenizerFiles(path);
  try {
    return createTokenizer(files);
  } catch (cause) {
    throw new Error(`${at}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** Content and file name, for messages. @throws Error naming the file and what is wrong with it */
export async function readTokenizerFiles(folder: string): Promise<TokenizerFiles & { readonly at: string }> {
  const path = join(folder, "tokenizer.json");
  if (!existsSync(path)) {
    const gguf = hasTokenizerFiles(folder) ? await findGguf(folder) : undefined;
    if (gguf !== undefined) return { at: gguf, ...(await readGguf(gguf)) };
  }
  const tokenizer = await readJson(path);
  if (tokenizer === undefined) throw new Error(`${path}: no such file; a Hugging Face tokenizer folder has one`);
  const config = expectRecord((await readJson(join(folder, "tokenizer_config.json"))) ?? {}, "tokenizer_config.json");
  const map = expectRecord((await readJson(join(folder, "special_tokens_map.json"))) ?? {}, "special_tokens_map.json");
  const chatTemplate = await readText(join(folder, "chat_template.jinja"));
  return { at: path, tokenizer, config: withNamedTokens(config, map), chatTemplate };
}

/** Whatever the types of its tensors are. */
async function readGguf(path: string): Promise<TokenizerFiles> {
  return ggufTokenizerFiles((await readGgufSummary(path)).metadata, path);
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
