/**
 * The specification that an engine is built from, and the description that it gives of itself. Plain data: both cross a
 * process boundary.
 */
import type { RequestedType } from "../models/weights/weight-types.ts";
import type { AdapterSpec } from "./adapters/adapter-choice.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { EncoderLimits } from "./request/encoder-input.ts";

/** Types in which weights of any checkpoint can be kept. */
export const WEIGHT_TYPES: readonly RequestedType[] = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "stored"];
/** Quantized types that layer matrices can have on a GPU. */
export const GPU_MATRICES = ["fp8", "int4"] as const;
export type GpuMatrices = (typeof GPU_MATRICES)[number];

/** Types of keys and values in memory. q8_0: 8 bits each, and a scale for every 32. */
export type KvCacheType = "f32" | "f16" | "q8_0";
export const KV_CACHE_TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

export interface KvCacheSpec {
  /** Undefined: what the device computes in. */
  readonly type: KvCacheType | undefined;
  /** Requested as FP8: a GPU keeps it, and on the CPU `type` is its form. */
  readonly isFp8?: boolean | undefined;
  /** Its size at most; 0 = not said. */
  readonly bytes: number;
  /** Its share of the memory that is free once all else is placed; undefined = not said. */
  readonly freeFraction: number | undefined;
  /** Size of the host KV cache. */
  readonly hostBytes: number;
  /** Keys that layers see at most, given to the layers in turn; empty = as the model has it. */
  readonly attentionWindows: readonly number[];
}

export interface GpuSpec {
  readonly ordinal: number;
  readonly matrices: GpuMatrices | undefined;
  /** The matrix of logits becomes FP8. */
  readonly quantizesOutput?: boolean | undefined;
  /** Absent: one GPU runs the model. */
  readonly ranks?: GpuRanks | undefined;
}

/** GPUs that run a model together. */
export interface GpuRanks {
  /** GPUs that share each layer. */
  readonly numTensorRanks: number;
  /** Runs of layers, one behind the other. */
  readonly numStages: number;
  /** GPU ordinals on this machine, the ranks of a stage side by side. The first is that of the spec. */
  readonly ordinals: readonly number[];
  /** Address that the other ranks connect to when other processes drive them. */
  readonly network?: RankNetwork | undefined;
}

export interface RankNetwork {
  readonly address: string;
  readonly port: number;
  /** For all to come. */
  readonly timeoutMs: number;
}

/** Engines by the names of the parameter `engine`; auto: ours where it knows the model. */
export const ENGINE_NAMES = ["auto", "nereid", "llama.cpp"] as const;
export type EngineName = (typeof ENGINE_NAMES)[number];

export interface EngineSpec {
  /** Absolute path of a model directory or of a GGUF file. */
  readonly modelDir: string;
  /** Absent = auto. */
  readonly engineName?: EngineName | undefined;
  /** Layers that the llama.cpp engine puts on GPUs; absent: all for an instance on a GPU, else none. */
  readonly gpuLayers?: number | undefined;
  readonly engine: EngineConfig;
  /** Tokens that the KV cache holds; 0 = chosen by what the model and the machine allow. */
  readonly kvCacheTokens: number;
  readonly kvCache?: KvCacheSpec | undefined;
  /** 0 = chosen by the machine. */
  readonly numThreads: number;
  /** Type of the matrices in memory; undefined: blocks as they are stored, floats as f32; "stored": floats too. */
  readonly weightType?: RequestedType | undefined;
  /** Absent = the CPU. */
  readonly gpu?: GpuSpec | undefined;
  /** A request's output is bit-identical whatever runs beside it. Slower. */
  readonly isDeterministic?: boolean | undefined;
  /** Absolute path of a draft model with the same vocabulary, or of an EAGLE-3 head. */
  readonly draftModelDir?: string | undefined;
  /** The model drafts with its own layer of multi-token prediction. */
  readonly usesMtp?: boolean | undefined;
  /** Absolute path of a module that exports `logitsPostProcessors`; its functions run in the engine's process. */
  readonly postProcessorModule?: string | undefined;
  readonly adapters?: AdapterSpec | undefined;
  /** Seconds that first steps on a GPU may take before the engine is ready; absent: the default, 0: none. */
  readonly warmUpSeconds?: number | undefined;
}

export interface EngineInfo {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxSequenceLength: number;
  /** Image tokens have a time, a row and a column (M-RoPE). */
  readonly hasAxes: boolean;
  /** Prompts may have rows of embeddings in place of tokens. */
  readonly takesEmbeddings: boolean;
  /** Ids after which the model has nothing to say. */
  readonly eosTokenIds: readonly number[];
  /** Absent: the model has no encoder. */
  readonly encoder?: EncoderLimits | undefined;
  /** Prompt of a decoder behind an encoder, where a request brings none. */
  readonly startTokenIds?: readonly number[] | undefined;
  readonly padTokenId?: number | undefined;
}
