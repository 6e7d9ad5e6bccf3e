/**
 * Limits that an engine was built for: `build_config` in its config.json, as `trtllm-build` and `nereid build` write
 * it. They narrow the model's parameters and never widen them. Folders without that section set no limit.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { LlmSettings } from "./llm-settings.ts";

/** Larger ones are refused by the reader of the weights. */
const MAX_CONFIG_BYTES: number = 1 << 20;

export interface BuildLimits {
  readonly max_batch_size?: number | undefined;
  readonly max_num_tokens?: number | undefined;
  /** Prompt and output. */
  readonly max_seq_len?: number | undefined;
  readonly max_input_len?: number | undefined;
  readonly max_beam_width?: number | undefined;
  /** Its weights and choices are those of a GPU. */
  readonly isForGpu?: boolean;
}

const NAMES = ["max_batch_size", "max_num_tokens", "max_seq_len", "max_input_len", "max_beam_width"] as const;

export async function readBuildLimits(folder: string): Promise<BuildLimits> {
  const path = join(folder, "config.json");
  try {
    const { size } = await stat(path);
    return size > MAX_CONFIG_BYTES ? {} : parseBuildLimits(await readFile(path, "utf8"));
  } catch {
    return {}; // a GGUF file, say
  }
}

/** A value that is no positive integer counts as absent: the loader of the weights judges the files. */
export function parseBuildLimits(text: string): BuildLimits {
  let section: Readonly<Record<string, unknown>> | null | undefined;
  try {
    section = (JSON.parse(text) as { build_config?: Record<string, unknown> } | null)?.build_config;
  } catch {
    return {};
  }
  const said = NAMES.filter((name) => isCount(section?.[name]));
  const limits = Object.fromEntries(said.map((name) => [name, section?.[name]]));
  const { device } = (section?.nereid ?? {}) as { readonly device?: unknown };
  return typeof device === "string" && device.startsWith("cuda") ? { ...limits, isForGpu: true } : limits;
}

/** Both sets of limits at once. */
export function narrowerLimits(first: BuildLimits, second: BuildLimits): BuildLimits {
  const both = NAMES.map((name) => {
    const values = [first[name], second[name]].filter((value) => value !== undefined);
    return [name, values.length === 0 ? undefined : Math.min(...values)] as const;
  });
  return { ...first, ...second, ...Object.fromEntries(both) };
}

export function withBuildLimits(settings: LlmSettings, limits: BuildLimits): LlmSettings {
  const { engine } = settings;
  return {
    ...settings,
    engine: {
      ...engine,
      maxSequences: least(engine.maxSequences, limits.max_batch_size),
      maxBatchTokens: least(engine.maxBatchTokens, limits.max_num_tokens),
      maxSequenceLength: limits.max_seq_len,
      maxPromptLength: limits.max_input_len,
    },
    maxBeamWidth: least(settings.maxBeamWidth, limits.max_beam_width),
  };
}

function least(value: number, limit: number | undefined): number {
  return limit === undefined ? value : Math.min(value, limit);
}

function isCount(value: unknown): boolean {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}
