/**
 * Context length, vocabulary and default sampling from the files beside the weights: config.json and
 * generation_config.json of transformers, `build_config` of TensorRT-LLM, or GGUF metadata. Missing files give none.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isObject, type JsonObject } from "../core/json-object.ts";
import { findGguf } from "../formats/gguf/find-file.ts";
import { readGgufSummary } from "../formats/gguf/gguf.ts";
import type { Sampling } from "./text-request.ts";

export interface FolderFacts {
  readonly contextLength: number | undefined;
  /** Rows of the embedding, which may be more than the tokenizer has tokens. */
  readonly vocabularySize: number | undefined;
  readonly sampling: Sampling;
}

const MAX_BYTES: number = 16 * 1024 * 1024;
/** Tokenizers of models without a bound say an enormous number. */
const LARGEST_CONTEXT = 100_000_000;

export async function readFolderFacts(folder: string): Promise<FolderFacts> {
  const config = await readJson(join(folder, "config.json"));
  const generation = await readJson(join(folder, "generation_config.json"));
  const sampling = generation === undefined ? {} : samplingOf(generation);
  if (config === undefined) return { ...(await ggufFacts(folder)), sampling };
  const inner = [config, recordOf(config.text_config), recordOf(config.pretrained_config)];
  const built = countOf(recordOf(config.build_config).max_seq_len);
  return {
    // Behind an encoder the prompt takes no positions of the output.
    contextLength:
      config.is_encoder_decoder === true ? undefined : leastOf([firstCount(inner, "max_position_embeddings"), built]),
    vocabularySize: firstCount(inner, "vocab_size"),
    sampling,
  };
}

/** Names of transformers' GenerationConfig. */
export function samplingOf(values: JsonObject): Sampling {
  const number = (key: string): number | undefined => {
    const value = values[key];
    return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  };
  return {
    temperature: number("temperature"),
    topP: number("top_p"),
    topK: number("top_k"),
    minP: number("min_p"),
    repetitionPenalty: number("repetition_penalty"),
    presencePenalty: number("presence_penalty"),
    frequencyPenalty: number("frequency_penalty"),
  };
}

async function ggufFacts(folder: string): Promise<Omit<FolderFacts, "sampling">> {
  const none = { contextLength: undefined, vocabularySize: undefined };
  try {
    const path = folder.endsWith(".gguf") ? folder : await findGguf(folder);
    if (path === undefined) return none;
    const { metadata } = await readGgufSummary(path);
    const architecture = String(metadata.get("general.architecture") ?? "");
    return { ...none, contextLength: countOf(metadata.get(`${architecture}.context_length`)) };
  } catch {
    return none; // the loader of the weights says why
  }
}

function firstCount(sections: readonly JsonObject[], key: string): number | undefined {
  return sections.map((section) => countOf(section[key])).find((count) => count !== undefined);
}

function leastOf(counts: readonly (number | undefined)[]): number | undefined {
  const known = counts.filter((count) => count !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

function countOf(value: unknown): number | undefined {
  const count = typeof value === "bigint" ? Number(value) : value;
  return typeof count === "number" && Number.isInteger(count) && count > 0 && count < LARGEST_CONTEXT
    ? count
    : undefined;
}

function recordOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

async function readJson(path: string): Promise<JsonObject | undefined> {
  try {
    if ((await stat(path)).size > MAX_BYTES) return undefined;
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
