/**
 * Memory that libllama needs for a model, by the metadata of its GGUF file: an estimate before anything is loaded. Keys are
 * those of ggml/docs/gguf.md, "LLM"; widths that the file does not give follow from the others, as in llama.cpp's
 * llama_hparams.
 */
import { ServerError } from "../../core/server-error.ts";
import { freeMemory } from "../../device/cpu/free-memory.ts";
import type { GgufSummary } from "../../formats/gguf/gguf.ts";
import type { GgufScalar } from "../../formats/gguf/header.ts";
import type { EngineSpec, KvCacheType } from "../engine-spec.ts";
import { type MemoryDemand, type MemoryPlan, planMemory } from "../plan/memory-plan.ts";

const CACHE_BYTES: Readonly<Record<KvCacheType, number>> = { f32: 4, f16: 2, q8_0: 34 / 32 };
/** Tokens that libllama computes at a time. */
const MICRO_BATCH = 512;

class Keys {
  readonly #metadata: GgufSummary["metadata"];
  readonly #prefix: string;

  constructor(metadata: GgufSummary["metadata"]) {
    this.#metadata = metadata;
    this.#prefix = `${String(metadata.get("general.architecture") ?? "")}.`;
  }

  /** The value of each layer; lists may be shorter. */
  ofLayers(key: string): readonly GgufScalar[] {
    const value = this.#metadata.get(this.#prefix + key);
    if (value === undefined) return [];
    return typeof value === "object" ? value : [value];
  }

  number(key: string): number {
    return Math.max(0, ...this.ofLayers(key).map((value) => Number(value) || 0));
  }
}

/** Bytes of keys and values of a token, in all layers. */
export function kvBytesOf(metadata: GgufSummary["metadata"], type: KvCacheType): number {
  const keys = new Keys(metadata);
  const numLayers = keys.number("block_count");
  const headDim = keys.number("embedding_length") / Math.max(1, keys.number("attention.head_count"));
  const heads = keys.ofLayers("attention.head_count_kv");
  const given = heads.length > 0 ? heads : keys.ofLayers("attention.head_count");
  const isLatent = keys.number("attention.key_length_mla") > 0; // values are a part of the keys
  const width =
    (keys.number("attention.key_length") || headDim) +
    (isLatent ? 0 : keys.number("attention.value_length") || headDim);
  let numHeads = 0;
  for (let layer = 0; layer < numLayers; layer++)
    numHeads += Number(given[Math.min(layer, given.length - 1)] ?? 0) || 0;
  return numHeads * width * CACHE_BYTES[type];
}

/** Bytes of a recurrent state, f32, of a sequence in all layers. Layers with attention count as well: it is a bound. */
export function stateBytesOf(metadata: GgufSummary["metadata"]): number {
  const keys = new Keys(metadata);
  const inner = keys.number("ssm.inner_size");
  const state = keys.number("ssm.state_size");
  const convolved = inner + 2 * keys.number("ssm.group_count") * state;
  const mixed = keys.number("wkv.head_size") * keys.number("embedding_length");
  const short = keys.number("shortconv.l_cache") * keys.number("embedding_length");
  const perLayer = inner * state + keys.number("ssm.conv_kernel") * convolved + mixed + short;
  return 4 * perLayer * keys.number("block_count");
}

export function vocabSizeOf(metadata: GgufSummary["metadata"]): number {
  const tokens = metadata.get("tokenizer.ggml.tokens");
  return typeof tokens === "object" ? tokens.length : new Keys(metadata).number("vocab_size");
}

/** Tokens of the longest sequence that the model was trained for. */
export function contextLengthOf(metadata: GgufSummary["metadata"]): number {
  return new Keys(metadata).number("context_length");
}

/** Most that libllama's memory can tell apart (LLAMA_MAX_SEQ). */
const MAX_SEQUENCES = 256;
/** Beginnings that are kept beside the sequences that run. */
const KEPT_SEQUENCES = 32;

/** A recurrent state costs memory for each sequence, used or not, and cannot be taken up by others. */
export function numSequencesOf(
  { engine }: Pick<EngineSpec, "engine">,
  { metadata }: Pick<GgufSummary, "metadata">,
): number {
  if (engine.maxSequences > MAX_SEQUENCES) {
    const got = `max_num_sequences ${engine.maxSequences}`;
    throw new ServerError(
      "invalid_argument",
      `the llama.cpp engine takes at most ${MAX_SEQUENCES} sequences, got ${got}`,
    );
  }
  const kept = stateBytesOf(metadata) > 0 ? 0 : KEPT_SEQUENCES;
  return Math.min(MAX_SEQUENCES, engine.maxSequences + kept);
}

/** @throws ServerError with the numbers when it does not fit */
export function planLlamaMemory(
  summary: GgufSummary,
  spec: Pick<EngineSpec, "engine" | "kvCache" | "kvCacheTokens">,
  blockSize: number,
  freeBytes: number = freeMemory(),
): MemoryPlan {
  const { bytes = 0, freeFraction, hostBytes = 0 } = spec.kvCache ?? {};
  const demand = llamaMemoryDemand(summary, spec, blockSize, numSequencesOf(spec, summary));
  const plan = planMemory(demand, { tokens: spec.kvCacheTokens, bytes, freeFraction, hostBytes: 0 }, freeBytes);
  if (hostBytes === 0) return plan;
  const note = "kv_cache_host_memory_bytes has no effect: the llama.cpp engine has no host KV cache";
  return { ...plan, lines: [...plan.lines, note] };
}

/** `numSequences`: those of libllama's memory. */
function llamaMemoryDemand(
  { metadata, fileBytes }: Pick<GgufSummary, "metadata" | "fileBytes">,
  { engine, kvCache }: Pick<EngineSpec, "engine" | "kvCache">,
  blockSize: number,
  numSequences: number,
): MemoryDemand {
  const keys = new Keys(metadata);
  const rows = Math.min(MICRO_BATCH, engine.maxBatchTokens);
  const perRow = 4 * (6 * keys.number("embedding_length") + 3 * keys.number("feed_forward_length"));
  const logits = 2 * 4 * vocabSizeOf(metadata) * numSequences;
  const stateBytes = stateBytesOf(metadata);
  return {
    items: [
      { what: "weights", numBytes: fileBytes },
      { what: "workspace", numBytes: rows * perRow + logits },
      ...(stateBytes > 0 ? [{ what: "states", numBytes: numSequences * stateBytes }] : []),
    ],
    // A model without keys still counts its tokens in blocks.
    bytesPerToken: Math.max(1, kvBytesOf(metadata, kvCache?.type ?? "f16")),
    blockSize,
    longestTokens: blockSize * Math.ceil(Math.max(1, contextLengthOf(metadata)) / blockSize),
    maxSequences: engine.maxSequences,
  };
}
