/** By how many GPUs a checkpoint was split, or an engine was built for, as its config.json says. */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

export interface RankMapping {
  /** GPUs that share each layer. */
  readonly tensorParallel: number;
  /** Runs of layers, each on GPUs of its own. */
  readonly pipelineParallel: number;
}

/** That run a model together. */
export const MAX_RANKS = 64;
const MAX_CONFIG_BYTES: number = 1 << 20;
const ONE: RankMapping = { tensorParallel: 1, pipelineParallel: 1 };

/** Of the folder's config.json; one rank where it says nothing. */
export async function readRankMapping(folder: string): Promise<RankMapping> {
  const path = join(folder, "config.json");
  try {
    const { size } = await stat(path);
    return size > MAX_CONFIG_BYTES ? ONE : parseRankMapping(JSON.parse(await readFile(path, "utf8")));
  } catch {
    return ONE; // judged by who reads the weights
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
