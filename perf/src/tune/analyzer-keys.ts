/**
 * Keys of Model Analyzer's configuration file (model_analyzer, docs/config.md): those that mean something here, those without
 * meaning here, and those that ask for something that is missing. Pure.
 */

/** Keys of the file that are also flags, with the flag's name. */
export const FLAG_KEYS = [
  "model_repository",
  "profile_models",
  "output_model_repository_path",
  "override_output_model_repository",
  "export_path",
  "concurrency",
  "batch_sizes",
  "client_protocol",
  "triton_http_endpoint",
  "triton_grpc_endpoint",
  "triton_launch_mode",
  "run_config_search_mode",
  "run_config_search_min_concurrency",
  "run_config_search_max_concurrency",
  "run_config_search_min_model_batch_size",
  "run_config_search_max_model_batch_size",
  "run_config_search_min_instance_count",
  "run_config_search_max_instance_count",
  "run_config_search_disable",
  "latency_budget",
  "min_throughput",
] as const;

/** Keys of the file alone. */
export const FILE_KEYS = ["constraints", "objectives", "perf_analyzer_flags", "triton_server_flags"] as const;

export const MODEL_KEYS = [
  "model_config_parameters",
  "parameters",
  "constraints",
  "objectives",
  "perf_analyzer_flags",
  "cpu_only",
  "weighting",
] as const;

/** Taken without an effect, and named in a warning. */
export const IGNORED_KEYS: readonly string[] = [
  "checkpoint_directory",
  "client_max_retries",
  "duration_seconds",
  "monitoring_interval",
  "collect_cpu_metrics",
  "perf_analyzer_path",
  "perf_analyzer_timeout",
  "perf_analyzer_cpu_util",
  "perf_output",
  "perf_output_path",
  "perf_analyzer_max_auto_adjusts",
  "triton_docker_image",
  "triton_docker_mounts",
  "triton_docker_shm_size",
  "triton_docker_labels",
  "triton_install_path",
  "triton_metrics_url",
  "triton_server_path",
  "triton_output_path",
  "run_config_search_max_binary_search_steps",
  "skip_summary_reports",
  "num_configs_per_model",
  "num_top_model_configs",
  "filename_model_inference",
  "filename_model_gpu",
  "filename_server_only",
  "inference_output_fields",
  "gpu_output_fields",
  "server_output_fields",
  "client_protocol_options",
  "plots",
  "weighting",
];

/** Missing, with the way around. */
export const REFUSED_KEYS: ReadonlyMap<string, string> = new Map([
  ["gpus", "set CUDA_VISIBLE_DEVICES"],
  ["reload_model_disable", "without loading there is nothing to search: use nereid bench"],
  ["run_config_profile_models_concurrently_enable", "list the models: they are tuned one after the other"],
  ["run_config_search_min_request_rate", "use concurrency"],
  ["run_config_search_max_request_rate", "use concurrency"],
  ["request_rate_search_enable", "use concurrency"],
  ["request_rate", "use concurrency"],
  ["triton_server_environment", "set the variables for nereid tune: its server inherits them"],
  ["genai_perf_flags", "use nereid bench for language models behind OpenAI's API"],
  ["bls_composing_models", "tune each of them"],
  ["cpu_only_composing_models", "tune each of them"],
]);
