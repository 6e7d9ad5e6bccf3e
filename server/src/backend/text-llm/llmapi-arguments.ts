/**
 * Arguments of TensorRT-LLM's `LLM()`, as `model.yaml` of an `llmapi` repository and the options file of `trtllm-serve`
 * write them. Source: TensorRT-LLM, `tensorrt_llm/llmapi/llm_args.py` (TorchLlmArgs). Pure.
 */
import { basename, resolve } from "node:path";
import { isObject } from "../../core/json-object.ts";
import {
  ArgumentBuilder,
  applyRules,
  type EngineArguments,
  type RuleSet,
  section,
  to,
  toCount,
  toOnGpu,
  toText,
} from "./argument-rules.ts";

/** Section of the file that is about Triton, not about the engine. */
export const TRITON_SECTION = "triton_config";

const sizes: RuleSet = {
  rules: {
    max_batch_size: to("max_num_sequences"),
    max_num_tokens: to("max_num_tokens"),
    max_beam_width: to("max_beam_width"),
    max_seq_len: toCount((builder, count) => {
      builder.maxSequenceLength = count;
    }),
    max_input_len: toCount((builder, count) => {
      builder.maxPromptLength = count;
    }),
  },
  withoutEffect: ["opt_batch_size", "opt_num_tokens", "strongly_typed", "plugin_config", "kv_cache_type"],
};

const kvCache: RuleSet = {
  rules: {
    enable_block_reuse: to("enable_kv_cache_reuse"),
    max_tokens: to("max_tokens_in_paged_kv_cache"),
    max_attention_window: to("max_attention_window_size"),
    sink_token_length: to("sink_token_length"),
    free_gpu_memory_fraction: toOnGpu("kv_cache_free_gpu_mem_fraction"),
    max_gpu_total_bytes: (value, builder, name) => {
      if (Number(value) > 0) toOnGpu("kv_cache_memory_bytes")(value, builder, name);
    },
    host_cache_size: to("kv_cache_host_memory_bytes"),
    onboard_blocks: to("kv_cache_onboard_blocks"),
    dtype: setKvCacheType,
  },
  withoutEffect: [
    "attention_dp_events_gather_period_ms",
    "copy_on_partial_reuse",
    "cross_kv_cache_fraction",
    "enable_partial_reuse",
    "event_buffer_max_size",
    "mamba_ssm_cache_dtype",
    "max_util_for_resume",
    "secondary_offload_min_priority",
    "tokens_per_block",
    "use_uvm",
  ],
};

const scheduler: RuleSet = {
  rules: {
    capacity_scheduler_policy: (value, builder) =>
      builder.set("batch_scheduler_policy", String(value).toLowerCase().replace(/^.*\./, "")),
  },
  withoutEffect: ["context_chunking_policy", "dynamic_batch_config"],
};

const quantization: RuleSet = {
  rules: { quant_algo: setWeightType, kv_cache_quant_algo: setKvCacheType },
  withoutEffect: [
    "clamp_val",
    "exclude_modules",
    "group_size",
    "has_zero_point",
    "pre_quant_scale",
    "smoothquant_val",
    "use_meta_recipe",
  ],
};

const lora: RuleSet = {
  rules: { lora_dir: setAdapters, max_lora_rank: to("lora_cache_max_adapter_size") },
  withoutEffect: [
    "lora_ckpt_source",
    "lora_request",
    "lora_target_modules",
    "max_cpu_loras",
    "max_loras",
    "swap_gate_up_proj_lora_b_weight",
    "trtllm_modules_to_hf_modules",
  ],
};

const peft: RuleSet = {
  rules: {
    host_cache_size: (value, builder, name) => {
      if (Number(value) > 0) to("lora_cache_host_memory_bytes")(value, builder, name);
    },
  },
  withoutEffect: [
    "device_cache_percent",
    "lora_prefetch_dir",
    "max_adapter_size",
    "max_pages_per_block_device",
    "max_pages_per_block_host",
    "num_copy_streams",
    "num_device_module_layer",
    "num_ensure_workers",
    "num_host_module_layer",
    "num_put_workers",
    "optimal_adapter_size",
  ],
};

const ALL: RuleSet = {
  rules: {
    ...sizes.rules,
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
    tensor_parallel_size: to("tensor_parallel"),
    pipeline_parallel_size: to("pipeline_parallel"),
    enable_chunked_prefill: to("enable_chunked_context"),
    guided_decoding_backend: to("guided_decoding_backend"),
    build_config: section(sizes),
    kv_cache_config: section(kvCache),
    scheduler_config: section(scheduler),
    quant_config: section(quantization),
    lora_config: (value, builder, name) => {
      allowAdapters(builder);
      section(lora)(value, builder, name);
    },
    enable_lora: (value, builder) => {
      if (value === true) allowAdapters(builder);
    },
    max_lora_rank: to("lora_cache_max_adapter_size"),
    peft_cache_config: section(peft),
    speculative_config: setSpeculation,
  },
  withoutEffect: [
    "allreduce_strategy",
    "attention_dp_config",
    "attn_backend",
    "auto_parallel",
    "auto_parallel_world_size",
    "autotuner_enabled",
    "backend",
    "batch_wait_max_tokens_ratio",
    "batch_wait_timeout_iters",
    "batch_wait_timeout_ms",
    "batched_logits_processor",
    "batching_type",
    "cache_transceiver_config",
    "calib_config",
    "checkpoint_format",
    "checkpoint_loader",
    "context_parallel_size",
    "cp_config",
    "cuda_graph_config",
    "decoding_config",
    "disable_overlap_scheduler",
    "dtype",
    "embedding_parallel_mode",
    "enable_attention_dp",
    "enable_autotuner",
    "enable_build_cache",
    "enable_iter_perf_stats",
    "enable_iter_req_stats",
    "enable_layerwise_nvtx_marker",
    "enable_min_latency",
    "enable_prompt_adapter",
    "enable_sleep",
    "enable_tqdm",
    "env_overrides",
    "extended_runtime_perf_knob_config",
    "fail_fast_on_attention_window_too_large",
    "fast_build",
    "force_dynamic_quantization",
    "garbage_collection_gen0_threshold",
    "gather_generation_logits",
    "gpus_per_node",
    "hostname",
    "host",
    "iter_stats_max_iterations",
    "kv_connector_config",
    "load_format",
    "log_level",
    "max_prompt_adapter_token",
    "max_stats_len",
    "mm_encoder_only",
    "moe_cluster_parallel_size",
    "moe_config",
    "moe_expert_parallel_size",
    "moe_tensor_parallel_size",
    "mpi_session",
    "normalize_log_probs",
    "num_postprocess_workers",
    "nvfp4_gemm_config",
    "orchestrator_type",
    "perf_metrics_max_requests",
    "port",
    "postprocess_tokenizer_dir",
    "print_iter_log",
    "prometheus_metrics_config",
    "ray_placement_config",
    "ray_worker_extension_cls",
    "reasoning_parser",
    "request_stats_max_iterations",
    "return_perf_metrics",
    "sampler_force_async_worker",
    "sampler_type",
    "skip_tokenizer_init",
    "sparse_attention_config",
    "stream_interval",
    "tokenizer_mode",
    "torch_compile_config",
    "trust_remote_code",
    "use_torch_sampler",
  ],
};

/** `source` names the file for messages; `folder` holds it. */
export function llmApiArguments(
  values: Readonly<Record<string, unknown>>,
  { hasGpus, folder, source }: { readonly hasGpus: boolean; readonly folder: string; readonly source: string },
): EngineArguments {
  const builder = new ArgumentBuilder(hasGpus, folder);
  const { [TRITON_SECTION]: _, logits_post_processors: processors, ...engine } = values;
  applyRules(engine, ALL, builder);
  if (processors !== undefined && processors !== null) {
    builder.note(
      "logits_post_processors are Python objects, which this engine does not run: write the functions in a module and " +
        "name it with the parameter 'logits_post_processor'",
    );
  }
  return builder.finish(source);
}

/** Requests name a folder of the repository: upstream reads any of the server, which gives clients more than they need. */
function allowAdapters(builder: ArgumentBuilder): void {
  builder.parameters.lora_request_dir ??= "..";
}

/** A list of adapters' folders, known by the last part of their paths. */
function setAdapters(value: unknown, builder: ArgumentBuilder, name: string): void {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const paths = list.filter((path) => typeof path === "string").filter((path) => /^[^,:]+$/.test(path));
  if (paths.length < list.length) builder.note(`${name}: expected paths without commas and colons`);
  const entries = paths.map((path) => `${basename(path)}:${resolve(builder.folder, path)}`);
  if (entries.length > 0) builder.set("lora_adapters", [...new Set(entries)].join(","));
}

/** Weights that the files do not have in few bits are quantized while they are loaded. */
function setWeightType(value: unknown, builder: ArgumentBuilder, name: string): void {
  const algorithm = String(value).toUpperCase().replace(/^.*\./, "");
  const isNarrow = /W4|NVFP4|MXFP4/.test(algorithm);
  const isByte = /FP8|W8/.test(algorithm);
  if (!isNarrow && !isByte) {
    if (algorithm !== "NO_QUANT") builder.withoutEffect(name);
    return;
  }
  const [onGpu, onCpu] = isNarrow ? ["int4", "q4_0"] : ["fp8", "q8_0"];
  const type = builder.hasGpus ? onGpu : onCpu;
  builder.set("weight_type", type);
  builder.note(`${name} ${algorithm}: weights that are stored wider are kept as ${type}`);
}

function setKvCacheType(value: unknown, builder: ArgumentBuilder, name: string): void {
  const type = String(value).toLowerCase().replace(/^.*\./, "");
  if (type === "auto") return;
  if (builder.hasGpus && /^(fp8|int8)$/.test(type)) builder.set("kv_cache_type", type);
  else builder.withoutEffect(name);
}

/** Draft tokens change the speed of an answer, not its text: kinds that are not here are left out. */
function setSpeculation(value: unknown, builder: ArgumentBuilder, name: string): void {
  if (!isObject(value)) {
    builder.withoutEffect(name);
    return;
  }
  const kind = String(value.decoding_type ?? "").toLowerCase();
  const drafts = value.max_draft_len ?? value.max_window_size ?? value.num_nextn_predict_layers;
  const model = value.speculative_model ?? value.speculative_model_dir;
  if (kind === "ngram" || kind === "lookahead") {
    builder.set("speculative_ngram_size", String(value.max_matching_ngram_size ?? value.max_ngram_size ?? 3));
  } else if ((kind === "draft_target" || kind === "eagle3") && typeof model === "string") {
    builder.set("speculative_model", resolve(builder.folder, model));
  } else if (kind === "mtp") {
    builder.set("speculative_mtp", "true");
  } else {
    builder.note(`${name}.decoding_type ${String(value.decoding_type)}: decoding runs without draft tokens`);
    return;
  }
  if (Number.isSafeInteger(drafts)) builder.set("num_draft_tokens", String(drafts));
}
