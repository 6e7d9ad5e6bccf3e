/** The formats of `nereid quantize`: storage of the matrices, and fields of config.json. It measures nothing. */

import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import { createElementConverter } from "@nereid/server/device/cpu/element-converter";
import { NOT_QUANTIZED, type Quantization } from "../checkpoint/checkpoint-config.ts";
import { MODULE_SITES, type SearchedFactors } from "./awq-search.ts";
import { AwqStorage } from "./awq-storage.ts";
import { Fp8Storage } from "./fp8-storage.ts";
import { type InputStats, siteKey } from "./input-stats.ts";
import type { LinearStorage } from "./linear-storage.ts";
import { SmoothQuantStorage } from "./smooth-quant-storage.ts";
import { WeightOnlyStorage } from "./weight-only-storage.ts";

export const QUANT_FORMATS = ["fp8", "int8_sq", "int4_awq", "w4a8_awq", "int8_wo", "int4_wo", "full_prec"] as const;
export type QuantFormat = (typeof QUANT_FORMATS)[number];

export const DEFAULT_GROUP_SIZE = 128;
/** Exceeds the inputs of every published layer. */
const MAX_INPUTS: number = 1 << 18;

export interface FormatOptions {
  readonly format: QuantFormat;
  /** Inputs that share a scale; undefined: `DEFAULT_GROUP_SIZE`. */
  readonly groupSize: number | undefined;
  readonly kvCacheAlgorithm: "FP8" | undefined;
  /** Quantizes the lm_head too (fp8). */
  readonly quantizesOutput?: boolean | undefined;
}

export interface Calibrated {
  /** Undefined for weight-only formats. */
  readonly stats: ReadonlyMap<string, InputStats> | undefined;
  readonly found: SearchedFactors | undefined;
}

/** `isRoundedAnew`: the matrices were quantized before. */
export function storageOf(
  { format, groupSize = DEFAULT_GROUP_SIZE, quantizesOutput = false }: FormatOptions,
  dtype: FloatType,
  { stats, found }: Calibrated,
  isRoundedAnew: boolean,
): LinearStorage | undefined {
  // A search over already chosen scales would find the same ones again.
  const alike = isRoundedAnew ? new Float32Array(MAX_INPUTS).fill(1) : undefined;
  const importanceOf = (module: string): Float32Array | undefined => found?.importance.get(module) ?? alike;
  const largestInputOf = (module: string): number | undefined => largestInput(module, stats, found);
  switch (format) {
    case "int4_awq":
      return new AwqStorage({ groupSize, importanceOf });
    case "w4a8_awq":
      return new AwqStorage({ groupSize, importanceOf, largestInputOf });
    case "int8_sq":
      return new SmoothQuantStorage();
    case "fp8":
      return new Fp8Storage(largestInputOf, quantizesOutput);
    case "int8_wo":
      return new WeightOnlyStorage(8, dtype, createElementConverter());
    case "int4_wo":
      return new WeightOnlyStorage(4, dtype, createElementConverter());
    case "full_prec":
      return undefined;
  }
}

/** Statistics after scaling, if factors were applied. */
function largestInput(
  module: string,
  stats: ReadonlyMap<string, InputStats> | undefined,
  found: SearchedFactors | undefined,
): number | undefined {
  const [, layer = "", name = ""] = /^transformer\.layers\.(\d+)\.(.+)$/.exec(module) ?? [];
  const site = MODULE_SITES.get(name);
  const seen = site === undefined ? undefined : stats?.get(siteKey(Number(layer), site));
  if (seen === undefined) return undefined;
  const importance = found?.importance.get(module);
  let largest = 0;
  for (const [i, value] of seen.maxAbs.entries()) {
    // Importance is the mean square after scaling.
    const factor = importance === undefined ? 1 : Math.sqrt((importance[i] ?? 0) / (seen.meanSquare[i] || 1));
    largest = Math.max(largest, value * factor);
  }
  return largest;
}

const ALGORITHMS: Readonly<Record<QuantFormat, string | null>> = {
  fp8: "FP8",
  int8_sq: "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN",
  int4_awq: "W4A16_AWQ",
  w4a8_awq: "W4A8_AWQ",
  int8_wo: "W8A16",
  int4_wo: "W4A16",
  full_prec: null,
};

export function quantizationOf({
  format,
  groupSize = DEFAULT_GROUP_SIZE,
  kvCacheAlgorithm,
  quantizesOutput = false,
}: FormatOptions): Quantization {
  const base = { ...NOT_QUANTIZED, quant_algo: ALGORITHMS[format], kv_cache_quant_algo: kvCacheAlgorithm ?? null };
  if (!format.endsWith("awq")) return { ...base, exclude_modules: quantizesOutput ? [] : ["lm_head"] };
  return {
    ...base,
    group_size: groupSize,
    has_zero_point: false,
    pre_quant_scale: false,
    exclude_modules: ["lm_head"],
  };
}
