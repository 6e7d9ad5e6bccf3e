/**
 * The `parameters` of an LLM, by the names of TensorRT-LLM's configuration. Pure: paths are not opened. Settings
 * without effect are returned as notes for the log.
 */
import { isAbsolute, relative, resolve } from "node:path";
import { nearestName } from "../../config/suggest.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { AdapterSpec } from "../../engine/adapters/adapter-choice.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../engine/engine-config.ts";
import {
  ENGINE_NAMES,
  type EngineName,
  type EngineSpec,
  GPU_MATRICES,
  type GpuMatrices,
  type KvCacheSpec,
  WEIGHT_TYPES,
} from "../../engine/engine-spec.ts";
import type { ModelSource } from "../backend.ts";
import type { EncoderFacts } from "./encoder-inputs.ts";
import { parseKvCache } from "./kv-cache-settings.ts";
import { parseAdapters } from "./lora-settings.ts";
import { parseDeviceIds, type RankSettings } from "./rank-settings.ts";
import type { PriorityLevels } from "./read-cache-hints.ts";
import { parseSpeculation } from "./speculation-settings.ts";

export interface LlmSettings {
  /** Folders that may hold the weights, in the order in which to look. */
  readonly folders: readonly string[];
  readonly engine: EngineConfig;
  readonly engineName: EngineName;
  /** Layers on GPUs, for the llama.cpp engine. */
  readonly gpuLayers: number | undefined;
  /** 0 = chosen by the engine. */
  readonly kvCacheTokens: number;
  readonly kvCache: KvCacheSpec;
  readonly numThreads: number;
  /** Undefined = as the files have them. */
  readonly weightType: EngineSpec["weightType"];
  /** Quantized type of layer matrices; GPUs only. */
  readonly gpuMatrices: GpuMatrices | undefined;
  /** The matrix of logits becomes FP8, on GPUs alone. */
  readonly quantizesOutput: boolean;
  readonly ranks: RankSettings;
  /** Outputs are bit-identical whatever else is served. */
  readonly isDeterministic: boolean;
  /** Absolute path of the files of a model that drafts tokens for this one. */
  readonly draftModel: string | undefined;
  readonly usesMtp: boolean;
  readonly excludeInputInOutput: boolean;
  readonly isDecoupled: boolean;
  readonly maxBeamWidth: number;
  /** Absolute path of a module inside the model's folder, whose functions change logits. */
  readonly postProcessorModule: string | undefined;
  readonly adapters: AdapterSpec;
  /** As the files of the model say, which the engine reads: none before. */
  readonly eosTokenIds: readonly number[];
  /** The same: what its encoder takes, if it has one. */
  readonly encoder: EncoderFacts;
  /** Size of the model's queue, which bounds the engine's queue too. */
  readonly priorityLevels: PriorityLevels;
  /** Seconds that the first steps on a GPU may take before the model is ready; undefined = the default. */
  readonly warmUpSeconds: number | undefined;
  /** One line each, to be logged once. */
  readonly notes: readonly string[];
  /** The same, where an instance runs on a CPU. */
  readonly cpuNotes: readonly string[];
}

const FOLDER_KEYS = ["gpt_model_path", "engine_dir", "model_dir", "model_path"];
/** Written by every filled-in template; they say how a GPU or another process layout is used, and change no answer. */
const NOT_APPLICABLE = [
  "cross_kv_cache_fraction",
  "participant_ids",
  "num_nodes",
  "executor_worker_path",
  "worker_path",
  "enable_trt_overlap",
  "gpu_weights_percent",
  "lora_cache_gpu_memory_fraction",
  "lora_cache_optimal_adapter_size",
  "enable_context_fmha_fp32_acc",
  "multi_block_mode",
  "cuda_graph_mode",
  "cuda_graph_cache_size",
  "cancellation_check_period_ms",
  "stats_check_period_ms",
  "normalize_log_probs",
  "lookahead_window_size",
  "lookahead_verification_set_size",
  "speculative_decoding_fast_logits",
  "recv_poll_period_ms",
  "iter_stats_max_iterations",
  "request_stats_max_iterations",
];
/** These would change answers: a model that needs them should not be served as if it had them. */
const NOT_SUPPORTED = ["encoder_model_path", "medusa_choices", "eagle_choices"];

/** The APIs for text read these of the model's configuration. */
const OF_TEXT_APIS = [
  "tokenizer_dir",
  "served_model_name",
  "chat_template",
  "tool_format",
  "reasoning_format",
  "default_sampling",
  "max_model_len",
];
/** These say nothing to this engine, or not always, and are in every configuration: not worth a line of the log. */
const OF_EVERY_TEMPLATE = ["FORCE_CPU_ONLY_INPUT_TENSORS", "triton_backend", "num_draft_tokens"];

/** @throws ServerError when a parameter makes no sense */
export function parseLlmSettings(
  source: Pick<ModelSource, "config" | "modelFolder" | "versionFolder"> & Partial<Pick<ModelSource, "settings">>,
): LlmSettings {
  const reader = new ParameterReader(source.config);
  const folder = FOLDER_KEYS.map((key) => reader.text(key)).find((text) => text !== undefined);
  const { modelFolder, versionFolder } = source;
  const speculation = parseSpeculation(reader, modelFolder);
  const settings = {
    folders: [...new Set([resolve(modelFolder, folder ?? versionFolder), resolve(versionFolder, folder ?? ".")])],
    engine: { ...parseEngineConfig(reader, source.config), speculation: speculation.config },
    engineName: parseEngineName(reader),
    gpuLayers: reader.int("gpu_layers"),
    kvCacheTokens: reader.int("max_tokens_in_paged_kv_cache") ?? 0,
    kvCache: parseKvCache(reader),
    numThreads: reader.int("num_threads") ?? 0,
    warmUpSeconds: parseWarmUp(reader),
    weightType: parseWeightType(reader),
    gpuMatrices: parseGpuMatrices(reader),
    quantizesOutput: parseQuantizesOutput(reader),
    ranks: parseRanks(reader, source.settings),
    isDeterministic: reader.flag("deterministic") ?? false,
    draftModel: speculation.draftModel,
    usesMtp: speculation.usesMtp,
    excludeInputInOutput: reader.flag("exclude_input_in_output") ?? false,
    isDecoupled: source.config.model_transaction_policy?.decoupled === true,
    maxBeamWidth: Math.max(1, reader.int("max_beam_width") ?? 1),
    postProcessorModule: parseModule(reader, modelFolder),
    adapters: parseAdapters(reader, modelFolder),
    eosTokenIds: [],
    encoder: {},
    priorityLevels: {
      numLevels: source.config.dynamic_batching?.priority_levels ?? 0,
      defaultLevel: source.config.dynamic_batching?.default_priority_level ?? 0,
    },
  };
  noteGuides(reader);
  reader.noteUnused("not applicable on this device", NOT_APPLICABLE);
  reader.noteUnused("not supported, ignored", NOT_SUPPORTED);
  reader.noteUnknown([...OF_EVERY_TEMPLATE, ...OF_TEXT_APIS]);
  return { ...settings, notes: reader.notes(), cpuNotes: reader.cpuNotes() };
}

function parseEngineConfig(reader: ParameterReader, config: ModelSource["config"]): Omit<EngineConfig, "speculation"> {
  const defaults = DEFAULT_ENGINE_CONFIG;
  if (/^v1$/i.test(reader.text("gpt_model_type") ?? "")) {
    reader.note("gpt_model_type is V1: requests use in-flight batching anyway, with equal results");
  }
  return {
    maxSequences: reader.int("max_num_sequences") || Math.max(config.max_batch_size, defaults.maxSequences),
    maxBatchTokens: reader.int("max_num_tokens") || defaults.maxBatchTokens,
    // The templates' default is off, from the time when chunks needed another kernel; here chunks cost nothing.
    chunkedPrefill: reader.flag("enable_chunked_context") ?? defaults.chunkedPrefill,
    prefixReuse: reader.flag("enable_kv_cache_reuse") ?? defaults.prefixReuse,
    maxSnapshots: reader.int("max_state_snapshots"),
    policy: parsePolicy(reader),
    maxWaiting: config.dynamic_batching?.default_queue_policy?.max_queue_size ?? 0,
  };
}

/** Nereid's own parameter. */
function parseEngineName(reader: ParameterReader): EngineName {
  const text = reader.text("engine") ?? "auto";
  const found = ENGINE_NAMES.find((name) => name === text);
  if (found === undefined) throw reader.error("engine", ENGINE_NAMES.join(", "), text);
  return found;
}

/** For GPUs: kernels, GEMM algorithms and graphs are made before the model is ready. */
function parseWarmUp(reader: ParameterReader): number | undefined {
  const text = reader.text("warmup_seconds");
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds >= 0 && text.trim() !== "") return seconds;
  throw reader.error("warmup_seconds", "a number of seconds, 0 for none", text);
}

function noteGuides(reader: ParameterReader): void {
  const backend = reader.text("guided_decoding_backend");
  if (backend !== undefined && backend !== "xgrammar") {
    reader.note(`guided_decoding_backend is '${backend}': xgrammar is used instead`);
  }
  if (reader.text("xgrammar_tokenizer_info_path") !== undefined) {
    reader.note("xgrammar_tokenizer_info_path is not needed: guided decoding reads the model's tokenizer.json");
  }
}

function parseGpuMatrices(reader: ParameterReader): GpuMatrices | undefined {
  const text = reader.text("weight_type");
  return GPU_MATRICES.find((type) => type === text);
}

/** Beside matrices of fewer bits, or what the files have. */
function parseQuantizesOutput(reader: ParameterReader): boolean {
  const wanted = reader.flag("quantize_lm_head") ?? false;
  if (!wanted || parseWeightType(reader) === undefined) return wanted;
  throw reader.error("quantize_lm_head", "false, or weight_type fp8, int4 or none", "true");
}

function parseRanks(reader: ParameterReader, settings: ModelSource["settings"] | undefined): RankSettings {
  const sizeOf = (...keys: readonly string[]): number | undefined => {
    const given = keys.map((key) => reader.int(key)).find((size) => size !== undefined);
    return given === 0 ? 1 : given;
  };
  const text = reader.text("gpu_device_ids");
  const worldSize = Number(settings?.get("world-size") ?? 0);
  return {
    tensorParallel: sizeOf("tensor_parallel", "tensor_parallel_size", "tp_size"),
    pipelineParallel: sizeOf("pipeline_parallel", "pipeline_parallel_size", "pp_size"),
    worldSize: Number.isSafeInteger(worldSize) && worldSize > 1 ? worldSize : undefined,
    deviceIds: parseDeviceIds(text, (expected) => reader.error("gpu_device_ids", expected, text ?? "")),
  };
}

/** Nereid's own parameter: weights that are not quantized can be kept in fewer bits. */
function parseWeightType(reader: ParameterReader): EngineSpec["weightType"] {
  const text = reader.text("weight_type");
  if (parseGpuMatrices(reader) !== undefined) return undefined;
  const found = WEIGHT_TYPES.find((type) => type === text);
  if (text === undefined || found !== undefined) return found;
  throw reader.error("weight_type", [...WEIGHT_TYPES, ...GPU_MATRICES].join(", "), text);
}

function parseModule(reader: ParameterReader, modelFolder: string): string | undefined {
  const text = reader.text("logits_post_processor");
  if (text === undefined) return undefined;
  const path = resolve(modelFolder, text);
  const inside = relative(modelFolder, path);
  if (inside !== "" && !inside.startsWith("..") && !isAbsolute(inside)) return path;
  throw reader.error("logits_post_processor", "the path of a module inside the model's folder", text);
}

function parsePolicy(reader: ParameterReader): EngineConfig["policy"] {
  const text = reader.text("batch_scheduler_policy");
  if (text === undefined || text === "guaranteed_no_evict") return "guaranteed_no_evict";
  if (text === "max_utilization") return text;
  reader.note(
    `batch_scheduler_policy is '${text}', expected max_utilization or guaranteed_no_evict: taking the latter`,
  );
  return "guaranteed_no_evict";
}

class ParameterReader {
  readonly #config: ModelSource["config"];
  readonly #notes: string[] = [];
  readonly #cpuNotes: string[] = [];
  readonly #placeholders: string[];
  /** Keys that somebody reads: what is given beside them has no effect. */
  readonly #asked = new Set<string>();

  constructor(config: ModelSource["config"]) {
    this.#config = config;
    this.#placeholders = Object.keys(config.parameters).filter((key) => isPlaceholder(this.#raw(key)));
  }

  /** Undefined when it was not given, is empty, or still is a `${placeholder}`. */
  text(key: string): string | undefined {
    this.#asked.add(key);
    const raw = this.#raw(key)?.trim();
    return raw === "" || isPlaceholder(raw) ? undefined : raw;
  }

  int(key: string): number | undefined {
    const text = this.text(key);
    if (text === undefined) return undefined;
    const value = Number.parseInt(text, 10); // "8abc" gives 8, as upstream
    if (Number.isSafeInteger(value) && value >= 0) return value;
    throw this.error(key, "an integer of at least 0", text);
  }

  flag(key: string): boolean | undefined {
    const text = this.text(key);
    if (text === undefined) return undefined;
    if (/^(true|1)$/i.test(text)) return true;
    if (/^(false|0)$/i.test(text)) return false;
    throw this.error(key, "true or false", text);
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  noteUnused(why: string, keys: readonly string[]): void {
    const given = keys.filter((key) => this.text(key) !== undefined);
    if (given.length > 0) this.note(`parameters ${why}: ${given.join(", ")}`);
  }

  /** Call last. A misspelt name would else give a default without a word. */
  noteUnknown(known: readonly string[]): void {
    const unknown = Object.keys(this.#config.parameters).filter((key) => !known.includes(key) && !this.#asked.has(key));
    if (unknown.length === 0) return;
    const shown = unknown.map((key) => {
      const near = nearestName(key, this.#asked);
      return near === undefined ? key : `${key} (did you mean ${near}?)`;
    });
    this.note(`parameters unknown, ignored: ${shown.join(", ")}`);
  }

  noteOnCpu(text: string): void {
    this.#cpuNotes.push(text);
  }

  cpuNotes(): string[] {
    return [...this.#cpuNotes];
  }

  notes(): string[] {
    const unfilled = this.#placeholders;
    if (unfilled.length === 0) return this.#notes;
    return [`parameters left as placeholders count as not set: ${unfilled.join(", ")}`, ...this.#notes];
  }

  #raw(key: string): string | undefined {
    return Object.hasOwn(this.#config.parameters, key) ? this.#config.parameters[key]?.string_value : undefined;
  }

  error(key: string, expected: string, text: string): ServerError {
    return invalidArgument(`model '${this.#config.name}': parameter '${key}' is '${text}', expected ${expected}`);
  }
}

function isPlaceholder(text: string | undefined): boolean {
  return text?.startsWith("${") === true;
}
