/** The `parameters` of a tokenizer model. Pure; paths are not opened. */
import { resolve } from "node:path";
import { invalidArgument } from "../../core/server-error.ts";
import type { ModelSource } from "../backend.ts";

export type TokenizerRole = "preprocessing" | "postprocessing" | "encoding";

export interface TokenizerSettings {
  readonly role: TokenizerRole;
  /** Folders that may hold tokenizer.json, in the order in which to look. */
  readonly folders: readonly string[];
  readonly addSpecialTokens: boolean;
  readonly skipSpecialTokens: boolean;
  /** Settings of prompts with images; see image-prompt.ts. */
  readonly promptTemplate: string;
  readonly imageToken: string;
  readonly imageTemplate: string;
  /** Tokens to ask for where requests do not say. */
  readonly maxTokens: number | undefined;
  /** Undefined: what the files beside the tokenizer say. */
  readonly vocabularySize: number | undefined;
  readonly maxLength: number | undefined;
  readonly padMultiple: number;
}

const DEFAULT_IMAGE_TOKEN = "<image>";
const MAX_LENGTH = 1_000_000;

/** @throws ServerError when the model is neither kind or a parameter makes no sense */
export function parseTokenizerSettings(
  source: Pick<ModelSource, "config" | "modelFolder" | "versionFolder">,
): TokenizerSettings {
  const { config, modelFolder, versionFolder } = source;
  const text = (key: string): string | undefined => unlessPlaceholder(config.parameters[key]?.string_value);
  const folder = text("tokenizer_dir");
  const imageToken = text("image_token") ?? DEFAULT_IMAGE_TOKEN;
  const imageTemplate = text("image_template") ?? imageToken;
  if (imageTemplate.split(imageToken).length !== 2) {
    const wrong = `parameter 'image_template' is '${imageTemplate}', expected '${imageToken}' in it once`;
    throw invalidArgument(`model '${config.name}': ${wrong}`);
  }
  return {
    role: roleOf(source.config),
    // An absolute path stands for itself in both.
    folders: [...new Set([resolve(modelFolder, folder ?? "."), resolve(versionFolder, folder ?? ".")])],
    addSpecialTokens: parseFlag(text("add_special_tokens"), "add_special_tokens", config.name),
    skipSpecialTokens: parseFlag(text("skip_special_tokens"), "skip_special_tokens", config.name),
    promptTemplate: text("prompt_template") ?? "{images}{text}",
    imageToken,
    imageTemplate,
    maxTokens: parseCount(text("max_tokens"), "max_tokens", config.name),
    vocabularySize: parseCount(text("vocabulary_size"), "vocabulary_size", config.name),
    maxLength: parseCount(text("max_length"), "max_length", config.name),
    padMultiple: parseCount(text("pad_to_multiple_of"), "pad_to_multiple_of", config.name) ?? 1,
  };
}

function roleOf(config: ModelSource["config"]): TokenizerRole {
  const names = config.input.map(({ name }) => name);
  if (names.includes("QUERY")) return "preprocessing";
  if (names.includes("TOKENS_BATCH")) return "postprocessing";
  if (config.output.some(({ name }) => name === "attention_mask")) return "encoding";
  throw invalidArgument(
    `model '${config.name}': the tokenizer backend expects an input 'QUERY' (text to tokens) or 'TOKENS_BATCH' (tokens to text), or an output 'attention_mask' (text for an encoder), got inputs [${names.join(", ")}]`,
  );
}

/** A template that nobody filled in counts as not given. */
function unlessPlaceholder(value: string | undefined): string | undefined {
  return value === undefined || value === "" || value.startsWith("${") ? undefined : value;
}

function parseCount(value: string | undefined, key: string, model: string): number | undefined {
  if (value === undefined) return undefined;
  const count = Number(value);
  if (/^\d+$/.test(value) && count >= 1 && count <= MAX_LENGTH) return count;
  throw invalidArgument(
    `model '${model}': parameter '${key}' is '${value}', expected a whole number from 1 to ${MAX_LENGTH}`,
  );
}

function parseFlag(value: string | undefined, key: string, model: string): boolean {
  if (value === undefined) return true;
  const word = value.trim().toLowerCase();
  if (["true", "t", "1", "yes", "y"].includes(word)) return true;
  if (["false", "f", "0", "no", "n"].includes(word)) return false;
  throw invalidArgument(`model '${model}': parameter '${key}' is '${value}', expected true or false`);
}
