/**
 * Number of GPUs of a checkpoint or engine, from `mapping` in config.json. Source: TensorRT-LLM documentation,
 * "TensorRT-LLM Checkpoint", Mapping.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

export interface RankMapping {
  /** Tensor-parallel size: GPUs that share each layer. */
  readonly tensorParallel: number;
  /** Pipeline-parallel size: stages of consecutive layers, each on its own GPUs. */
  readonly pipelineParallel: number;
}

/** World size. */
export const MAX_RANKS = 64;
const MAX_CONFIG_BYTES: number = 1 << 20;
const ONE: RankMapping = { tensorParallel: 1, pipelineParallel: 1 };

/** Reads the folder's config.json; one rank when it has no mapping. */
export async function readRankMapping(folder: string): Promise<RankMapping> {
  const path = join(folder, "config.json");
  try {
    const { size } = await stat(path);
    return size > MAX_CONFIG_BYTES ? ONE : parseRankMapping(JSON.parse(await readFile(path, "utf8")));
  } catch {
    return ONE; // validated by the reader of the weights
  }
}

export function parseRankMapping(config: unknown): RankMapping {
  const root = sectionOf(config, "pretrained_config") ?? config;
  const mapping = sectionOf(root, "mapping");
  const sizeOf = (name: string): number => {
    const size = (mapping as Readonly<Record<string, unknown>> | undefined)?.[name];
    return typeof size === "number" && Number.isSafeInteger(size) && size >= 1 && size <= MAX_RANKS ? size : 1;
  };
  return { tensorParallel: sizeOf("tp_size"), pipelineParallel: sizeOf("pp_size") };
}

function sectionOf(value: unknown, name: string): object | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const section = (value as Readonly<Record<string, unknown>>)[name];
  return typeof section === "object" && section !== null ? section : undefined;
}
