/** Tokenizer, chat format, context length and default sampling of a model, read once from its folders. */
import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { ChatFormat, CreateChatFormat } from "../chat/chat-contract.ts";
import type { ModelServer, ServedModel } from "../core/model-server.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { hasTokenizerFiles, loadTokenizer } from "../formats/tokenizer/tokenizer-files.ts";
import { type FolderFacts, readFolderFacts, samplingOf } from "./folder-facts.ts";
import { candidateFolders, parameterText } from "./model-folders.ts";
import type { Sampling } from "./text-request.ts";

export interface ModelAssets {
  /** Undefined: no folder of the model has one. */
  readonly tokenizer: Tokenizer | undefined;
  readonly chat: ChatFormat;
  /** Tokens of prompt and output together. */
  readonly contextLength: number | undefined;
  readonly vocabularySize: number | undefined;
  /** A model that it calls writes a prompt of its own around the text (`prompt_template`). */
  readonly hasOwnPrompt: boolean;
  /** Values for fields that a request leaves out. */
  readonly defaults: Sampling;
}

const NO_FACTS: FolderFacts = { contextLength: undefined, vocabularySize: undefined, sampling: {} };
const MAX_TEMPLATE_BYTES: number = 1024 * 1024;

/** @throws ServerError when a file that a parameter names is wrong */
export async function readAssets(
  model: ServedModel,
  server: Pick<ModelServer, "model" | "index">,
  createChat: CreateChatFormat,
): Promise<ModelAssets> {
  const folders = candidateFolders(model, server);
  const folder = hasOwnTokenizer(model) ? undefined : folders.tokenizers.find(hasTokenizerFiles);
  const tokenizer = folder === undefined ? undefined : await tokenizerOf(folder, model.name);
  const weights = folders.weights.find(hasConfig) ?? folder;
  const facts = weights === undefined ? NO_FACTS : await readFolderFacts(weights);
  const beside = folder === undefined || folder === weights ? NO_FACTS : await readFolderFacts(folder);
  const context = Number(parameterText(model, "max_model_len") ?? Number.NaN);
  return {
    tokenizer,
    chat: await chatOf(model, tokenizer, createChat),
    contextLength: Number.isInteger(context) && context > 0 ? context : (facts.contextLength ?? beside.contextLength),
    vocabularySize: facts.vocabularySize ?? tokenizer?.vocabularySize,
    hasOwnPrompt: folders.hasOwnPrompt,
    defaults: { ...facts.sampling, ...known(beside.sampling), ...known(ownDefaults(model)) },
  };
}

/** Encoders split texts by themselves, by kinds of vocabularies that no tokenizer here needs to know. */
function hasOwnTokenizer({ config }: ServedModel): boolean {
  return config.backend === "encoder";
}

function hasConfig(folder: string): boolean {
  return existsSync(join(folder, "config.json")) || (folder.endsWith(".gguf") && existsSync(folder));
}

async function chatOf(
  model: ServedModel,
  tokenizer: Tokenizer | undefined,
  createChat: CreateChatFormat,
): Promise<ChatFormat> {
  const template = (await ownTemplate(model)) ?? tokenizer?.chatTemplate;
  const toolFormat = parameterText(model, "tool_format");
  const reasoningFormat = parameterText(model, "reasoning_format");
  const textOf = (id: number | undefined): string | undefined =>
    id === undefined ? undefined : tokenizer?.tokenOf(id);
  return createChat({
    template,
    bosToken: textOf(tokenizer?.bosId),
    eosToken: textOf(tokenizer?.eosId),
    toolFormat,
    reasoningFormat,
  });
}

/** The parameter `chat_template`: a file of the model's folder, or the template itself. */
async function ownTemplate(model: ServedModel): Promise<string | undefined> {
  const text = parameterText(model, "chat_template");
  if (text === undefined || text.includes("{{") || text.includes("{%") || model.folders === undefined) return text;
  const path = [model.folders.model, model.folders.version]
    .map((folder) => resolve(folder, text))
    .find((candidate) => existsSync(candidate));
  if (path === undefined) {
    const expected = "a template, or a file in the model's folder";
    throw invalidArgument(`model '${model.name}': parameter 'chat_template' is '${text}', expected ${expected}`);
  }
  if (statSync(path).size > MAX_TEMPLATE_BYTES) {
    throw invalidArgument(`model '${model.name}': chat template '${path}' is too large`);
  }
  return readFile(path, "utf8");
}

/** The parameter `default_sampling`: JSON with the names of generation_config.json. */
function ownDefaults(model: ServedModel): Sampling {
  const text = parameterText(model, "default_sampling");
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return samplingOf({ ...value });
  } catch {
    // reported below, with every other form that is no object
  }
  const message = `model '${model.name}': parameter 'default_sampling' is '${text}', expected a JSON object`;
  throw invalidArgument(message);
}

function known(sampling: Sampling): Sampling {
  return Object.fromEntries(Object.entries(sampling).filter(([, value]) => value !== undefined));
}

/** @throws ServerError when the files are none of a tokenizer */
async function tokenizerOf(folder: string, model: string): Promise<Tokenizer> {
  try {
    return await loadTokenizer(folder);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `model '${model}': ${reason}`, { cause });
  }
}
