/** The suites that can run without a GPU and without proprietary libraries, their settings, and why the others cannot. */

export interface SuiteSettings {
  /** Variables by which the scripts choose what they run. */
  readonly env?: Readonly<Record<string, string>>;
  /** The script prints `Test NAME` before each of its cases. */
  readonly printsCases?: boolean;
}

/** The backends that the scripts would try, without those that are not here. */
const ONNX = { BACKENDS: "onnx" };
const ONNX_PYTHON = { BACKENDS: "onnx python" };

export const SUITES: Readonly<Record<string, SuiteSettings>> = {
  L0_backend_identity: {},
  L0_backend_onnxruntime: {},
  L0_backend_python: {},
  L0_batch_input: { env: ONNX },
  L0_batcher: { env: ONNX_PYTHON },
  L0_client_nobatch: {},
  L0_client_timeout: {},
  L0_cmdline_trace: {},
  L0_config_json: {},
  L0_custom_model_config: {},
  L0_data_compression: {},
  L0_decoupled: {},
  L0_dyna_implicit_state: { env: ONNX },
  L0_dyna_sequence_batcher: { env: { BACKENDS: "onnx custom" } },
  L0_grpc: {},
  L0_grpc_state_cleanup: {},
  L0_http: {},
  L0_https: {},
  L0_implicit_state: { env: ONNX },
  L0_infer: { env: { BACKENDS: "onnx python", ENSEMBLES: "1" } },
  L0_infer_reshape: {},
  L0_infer_variable: { env: ONNX },
  L0_infer_zero: { env: ONNX },
  L0_initializer_as_input: {},
  L0_input_validation: {},
  L0_iterative_sequence: {},
  L0_lifecycle: {},
  L0_logging: {},
  L0_metrics: {},
  L0_model_config: { printsCases: true },
  L0_model_namespacing: {},
  L0_model_queue: {},
  L0_model_update: {},
  L0_nan_inf: {},
  L0_nullchar_string: {},
  L0_onnx_optimization: {},
  L0_optional_input: {},
  L0_output_name: {},
  L0_output_validation: {},
  L0_parameters: {},
  L0_passive_instance: {},
  L0_query: {},
  L0_rate_limiter: {},
  L0_repoagent_checksum: {},
  L0_request_cancellation: {},
  L0_response_cache: {},
  L0_response_statistics: {},
  L0_sagemaker: {},
  L0_scalar_io: { env: ONNX },
  L0_secure_grpc: {},
  L0_sequence_batcher: { env: { BACKENDS: "onnx custom", INITIAL_STATE_FILE: "0" } },
  L0_sequence_corrid_batcher: {},
  L0_server_status: {},
  L0_shared_memory: {},
  L0_simple_ensemble: {},
  L0_socket: {},
  L0_string_io: { env: ONNX },
  L0_trace: {},
  L0_vertex_ai: {},
  L0_warmup: { env: ONNX },
};

const EXCLUDED: readonly (readonly [RegExp, string])[] = [
  [/^L0_(libtorch|pytorch|torch)_|custom_ops/, "PyTorch models"],
  [/^L0_trt_|compute_capability|dlpack_multi_gpu/, "TensorRT engines"],
  [/cuda|pinned_memory|device_memory|parallel_copy|dlpack|^L0_priority$/, "a GPU"],
  [/^L0_perf_|_memory_growth$|stress|large_payload|http_fuzz/, "a measurement or a soak: see bench and tests/soak"],
  [
    /java|go_client|nodejs_client|client_build|client_valgrind|sdk|python_client/,
    "a test of clients, not of the server",
  ],
  [/storage_S3_local/, "a program of MinIO, downloaded by the script; tests/stores has moto's server"],
  [/storage_(S3|azure|swift)/, "an account at a cloud store; tests/stores has a local one"],
  [/additional_dependency_dirs/, "Windows: the script refuses Linux"],
  [
    /simple_lib|multi_server|^L0_io$|^L0_json$|^L0_memory$|register|async_work|python_api|output_detail|passive$/,
    "programs that link libtritonserver",
  ],
  [
    /backend_(tutorial|release|bls|config|fastertransformer)|batch_custom|repo_agent|buffer_attr/,
    "backends as shared libraries",
  ],
  [/openai|orca|mlflow|doc_links|build_presets|simple_example/, "another product, or a folder of documentation"],
];

/** Undefined for a suite that runs. */
export function excludedReason(suite: string): string | undefined {
  if (suite in SUITES) return undefined;
  return EXCLUDED.find(([pattern]) => pattern.test(suite))?.[1] ?? "not tried yet";
}
