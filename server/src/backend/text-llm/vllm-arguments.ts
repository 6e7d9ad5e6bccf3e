/**
 * Engine arguments of vLLM, as `model.json` of a `vllm` model writes them. Sources: vLLM, `vllm/engine/arg_utils.py`
 * (AsyncEngineArgs); Triton's vllm_backend, `model.json` and `multi_lora.json`. Asks the disk only which of two folders is there.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isObject } from "../../core/json-object.ts";
import { invalidArgument } from "../../core/server-error.ts";
import {
  ArgumentBuilder,
  applyRules,
  type EngineArguments,
  type RuleSet,
  to,
  toCount,
  toOnGpu,
  toText,
} from "./argument-rules.ts";

const GIB: number = 2 ** 30;

const ALL: RuleSet = {
  rules: {
    model: toText((builder, text) => {
      builder.model = text;
    }),
    tokenizer: toText((builder, text) => {
      builder.tokenizer = text;
    }),
    revision: toText((builder, text) => {
      builder.revision = text;
    }),
    tokenizer_revision: toText((builder, text) => {
      builder.tokenizerRevision = text;
    }),
    max_model_len: toCount((builder, count) => {
      builder.maxSequenceLength = count;
    }),
    tensor_parallel_size: to("tensor_parallel"),
    pipeline_parallel_size: to("pipeline_parallel"),
    max_num_seqs: to("max_num_sequences"),
    max_num_batched_tokens: to("max_num_tokens"),
    enable_prefix_caching: to("enable_kv_cache_reuse"),
    enable_chunked_prefill: to("enable_chunked_context"),
    gpu_memory_utilization: toOnGpu("kv_cache_free_gpu_mem_fraction"),
    kv_cache_memory_bytes: toOnGpu("kv_cache_memory_bytes"),
    kv_cache_dtype: (value, builder, name) => {
      if (builder.hasGpus && /^fp8/.test(String(value))) builder.set("kv_cache_type", "fp8");
      else if (value !== "auto") builder.withoutEffect(name);
    },
    swap_space: (value, builder, name) => {
      const bytes = Math.round(Number(value) * GIB);
      if (builder.hasGpus && bytes > 0) builder.set("kv_cache_host_memory_bytes", String(bytes));
      else builder.withoutEffect(name);
    },
    quantization: (value, builder, name) => {
      // Other kinds describe what the files already say.
      if (builder.hasGpus && value === "fp8") builder.set("weight_type", "fp8");
      else builder.withoutEffect(name);
    },
    max_lora_rank: to("lora_cache_max_adapter_size"),
    // `multi_lora.json` names the adapters.
    enable_lora: () => undefined,
    speculative_config: setSpeculation,
  },
  withoutEffect: [
    "additional_config",
    "aggregate_engine_logging",
    "allowed_local_media_path",
    "attention_backend",
    "attention_config",
    "async_scheduling",
    "block_size",
    "code_revision",
    "compilation_config",
    "config_format",
    "cpu_offload_gb",
    "cudagraph_capture_sizes",
    "data_parallel_size",
    "decode_context_parallel_size",
    "device",
    "disable_cascade_attn",
    "disable_custom_all_reduce",
    "disable_log_requests",
    "disable_log_stats",
    "disable_sliding_window",
    "distributed_executor_backend",
    "download_dir",
    "dtype",
    "enable_expert_parallel",
    "enable_log_requests",
    "enable_prompt_adapter",
    "enable_sleep_mode",
    "enforce_eager",
    "fully_sharded_loras",
    "generation_config",
    "guided_decoding_backend",
    "hf_config_path",
    "hf_overrides",
    "hf_token",
    "kv_transfer_config",
    "limit_mm_per_prompt",
    "load_format",
    "logits_processors",
    "logprobs_mode",
    "long_lora_scaling_factors",
    "long_prefill_token_threshold",
    "lora_dtype",
    "lora_extra_vocab_size",
    "max_context_len_to_capture",
    "max_cpu_loras",
    "max_logprobs",
    "max_loras",
    "max_parallel_loading_workers",
    "max_seq_len_to_capture",
    "mm_processor_kwargs",
    "model_impl",
    "model_loader_extra_config",
    "num_gpu_blocks_override",
    "num_lookahead_slots",
    "num_scheduler_steps",
    "otlp_traces_endpoint",
    "override_generation_config",
    "preemption_mode",
    "ray_workers_use_nsight",
    "reasoning_parser",
    "rope_scaling",
    "rope_theta",
    "runner",
    "scheduling_policy",
    "seed",
    "served_model_name",
    "skip_tokenizer_init",
    "structured_outputs_config",
    "task",
    "tokenizer_mode",
    "tokenizer_pool_size",
    "trust_remote_code",
    "use_v2_block_manager",
    "worker_cls",
    "worker_use_ray",
  ],
};

export interface VllmArguments extends EngineArguments {
  /** Adapters by the names that requests give; undefined: LoRA is off. */
  readonly adapters: readonly string[] | undefined;
}

/** `adapters`: the content of `multi_lora.json`; undefined without that file. @throws ServerError for what it cannot be */
export function vllmArguments(
  values: Readonly<Record<string, unknown>>,
  adapters: unknown,
  { hasGpus, folder, source }: { readonly hasGpus: boolean; readonly folder: string; readonly source: string },
): VllmArguments {
  const builder = new ArgumentBuilder(hasGpus, folder);
  applyRules(values, ALL, builder);
  const hasLora = String(values.enable_lora).toLowerCase() === "true";
  const names = hasLora ? setAdapters(adapters, builder) : undefined;
  return { ...builder.finish(source), adapters: names };
}

function setAdapters(adapters: unknown, builder: ArgumentBuilder): readonly string[] {
  const path = resolve(builder.folder, "multi_lora.json");
  if (adapters === undefined) throw invalidArgument(`Triton backend cannot find ${path}.`);
  const entries = isObject(adapters) ? Object.entries(adapters) : [];
  const isRight = isObject(adapters) && entries.every(([name, to]) => /^[^:,]+$/.test(name) && typeof to === "string");
  if (!isRight) throw invalidArgument(`${path}: expected an object of names and the folders of their adapters`);
  const texts = entries.map(([name, to]) => `${name}:${adapterFolder(String(to), builder.folder)}`);
  if (texts.length > 0) builder.set("lora_adapters", texts.join(","));
  return entries.map(([name]) => name);
}

/** vLLM begins relative paths at the working directory. */
function adapterFolder(path: string, folder: string): string {
  return existsSync(resolve(path)) ? resolve(path) : resolve(folder, path);
}

/** Draft tokens change the speed of an answer, not its text: kinds that are not here are left out. */
function setSpeculation(value: unknown, builder: ArgumentBuilder, name: string): void {
  if (!isObject(value)) {
    builder.withoutEffect(name);
    return;
  }
  const { method, model, num_speculative_tokens: count, prompt_lookup_max: longest } = value;
  if (method === "ngram" || model === "[ngram]") {
    builder.set("speculative_ngram_size", String(longest ?? 3));
  } else if (typeof model === "string" && (method === undefined || method === "draft_model" || method === "eagle3")) {
    builder.set("speculative_model", resolve(builder.folder, model));
  } else if (method === "mtp" || method === "deepseek_mtp") {
    builder.set("speculative_mtp", "true");
  } else {
    builder.note(`${name}: method ${String(method)}: decoding runs without draft tokens`);
    return;
  }
  if (Number.isSafeInteger(count)) builder.set("num_draft_tokens", String(count));
}
