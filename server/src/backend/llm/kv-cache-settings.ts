/** KV cache settings in a model's `parameters`: type, size, host cache, windows. Pure. */
import type { ServerError } from "../../core/server-error.ts";
import { KV_CACHE_TYPES, type KvCacheSpec, type KvCacheType } from "../../engine/engine-spec.ts";
import { parseByteCount } from "./parse-byte-count.ts";

/** Reads a parameter by its name; undefined when it is not set. */
export interface KvCacheParameters {
  text(key: string): string | undefined;
  flag(key: string): boolean | undefined;
  note(text: string): void;
  /** A note for instances on a CPU only. */
  noteOnCpu(text: string): void;
  error(key: string, expected: string, text: string): ServerError;
}

/** Other names for 8 bits; the form here is q8_0. */
const EIGHT_BITS: readonly string[] = ["int8", "fp8", "q8", "fp8_e4m3", "fp8_e5m2"];

/** The subset that GPUs support. */
const FP8: readonly (string | undefined)[] = ["fp8", "fp8_e4m3"];

/** @throws ServerError when a parameter makes no sense */
export function parseKvCache(parameters: KvCacheParameters): KvCacheSpec {
  noteOnboarding(parameters);
  noteSinks(parameters);
  return {
    type: parseType(parameters),
    isFp8: FP8.includes(parameters.text("kv_cache_type")),
    bytes: parseBytes(parameters, "kv_cache_memory_bytes") ?? 0,
    freeFraction: parseFraction(parameters),
    hostBytes: parseBytes(parameters, "kv_cache_host_memory_bytes") ?? 0,
    attentionWindows: parseWindows(parameters),
  };
}

function parseType(parameters: KvCacheParameters): KvCacheType | undefined {
  const text = parameters.text("kv_cache_type");
  if (text === undefined || text === "auto") return undefined;
  const found = KV_CACHE_TYPES.find((type) => type === text);
  if (found !== undefined) return found;
  if (!EIGHT_BITS.includes(text)) {
    throw parameters.error("kv_cache_type", ["auto", ...KV_CACHE_TYPES, "int8", "fp8"].join(", "), text);
  }
  parameters.noteOnCpu(
    `kv_cache_type is '${text}': on a CPU keys and values are kept as q8_0, 8 bits with a scale for every 32`,
  );
  return "q8_0";
}

function parseBytes(parameters: KvCacheParameters, key: string): number | undefined {
  const text = parameters.text(key);
  if (text === undefined) return undefined;
  const bytes = parseByteCount(text);
  if (bytes === undefined) throw parameters.error(key, "a number of bytes like 4294967296, 4GiB or 512MiB", text);
  return bytes;
}

function parseFraction(parameters: KvCacheParameters): number | undefined {
  const key = "kv_cache_free_gpu_mem_fraction";
  const text = parameters.text(key);
  if (text === undefined) return undefined;
  const value = Number.parseFloat(text);
  if (value > 0 && value <= 1) return value;
  throw parameters.error(key, "a number above 0 and at most 1", text);
}

/** One size for all layers, or sizes that are given to the layers in turn. */
function parseWindows(parameters: KvCacheParameters): readonly number[] {
  const key = "max_attention_window_size";
  const text = parameters.text(key);
  if (text === undefined) return [];
  const sizes = text.split(",").map((part) => (/^\s*\d{1,9}\s*$/.test(part) ? Number(part) : 0));
  if (sizes.every((size) => size > 0)) return sizes;
  throw parameters.error(key, "a number of tokens above 0, or a list of them separated by commas", text);
}

function noteOnboarding(parameters: KvCacheParameters): void {
  if (parameters.flag("kv_cache_onboard_blocks") !== false) return;
  parameters.note(
    "kv_cache_onboard_blocks is false: blocks of the host KV cache are copied back anyway, attention reads device blocks only",
  );
}

function noteSinks(parameters: KvCacheParameters): void {
  const text = parameters.text("sink_token_length");
  if (text === undefined || /^0+$/.test(text)) return;
  parameters.note(
    `sink_token_length is '${text}', not supported, ignored: sinks need keys that are rotated by their position in the cache, ` +
      "and here they are rotated by their position in the text",
  );
}
