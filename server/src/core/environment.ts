/**
 * Every environment variable that the server reads, and the type that lets code read no other. docs/environment.md is generated from
 * this table by tools/environment-page.ts.
 */

export const SERVER_ENVIRONMENT = {
  NEREID_PYTHON: { default: "python3", meaning: "Interpreter of Python models without an execution environment." },
  LLM_CONFIG_PATH: {
    default: "model.yaml",
    meaning: "File of the arguments of llmapi models, in or relative to their version folders.",
  },
  NEREID_ONNXRUNTIME_LIB: {
    default: "the installed package",
    meaning: "Path of the ONNX Runtime library. No other place is searched.",
  },
  NEREID_XGBOOST_LIB: { default: "the package xgboost of Python", meaning: "Path of XGBoost's library." },
  NEREID_LIGHTGBM_LIB: { default: "the package lightgbm of Python", meaning: "Path of LightGBM's library." },
  NEREID_TREELITE_LIB: { default: "the package treelite of Python", meaning: "Path of treelite's library." },
  NEREID_OPENVINO_LIB: { default: "the package openvino of Python", meaning: "Path of libopenvino_c." },
  NEREID_BACKEND_HOST: {
    default: "none",
    meaning: "Folder with a built host of C++ backends. Without it, the host is built when it is needed.",
  },
  NEREID_BACKEND_HOST_CACHE: {
    default: "a temporary folder",
    meaning: "Folder in which built hosts of C++ backends are kept. It must belong to the server's user.",
  },
  CXX: { default: "g++", meaning: "Compiler of the host of C++ backends." },
  NEREID_GGML_DIR: { default: "the installed package", meaning: "Folder with the libraries of ggml." },
  NEREID_CUDA_LIBRARIES: {
    default: "none",
    meaning: "Folders, separated by colons, that are searched first for NVRTC, cuBLASLt, NCCL and NVML.",
  },
  NEREID_KERNELS: { default: "the installed package", meaning: "Folder with the CUDA sources of the kernels." },
  NEREID_CHECK_LAUNCHES: {
    default: "0",
    meaning:
      "1: the engine waits for the GPU after each kernel, so that an error names it. Slow, for reports of faults.",
  },
  NEREID_RANK_TIMEOUT_S: { default: "300", meaning: "Seconds that the ranks of one model wait for each other." },
  NEREID_RANK_FOLLOWS: {
    default: "not set",
    meaning: "Internal: a rank sets it to 1 for the process that follows one leader. Do not set it.",
  },
  RANK: { default: "0", meaning: "This process among those of a launcher such as torchrun. 0 serves, others follow." },
  WORLD_SIZE: { default: "1", meaning: "Number of processes of the launcher." },
  LOCAL_RANK: { default: "0", meaning: "GPU of a rank that follows." },
  MASTER_ADDR: { default: "none", meaning: "Host of rank 0." },
  MASTER_PORT: { default: "none", meaning: "Port at which rank 0 waits for the others." },
  NEREID_PYTHON_ENVIRONMENTS: {
    default: "a temporary folder",
    meaning: "Folder in which archives of execution environments are unpacked. It must belong to the server's user.",
  },
  TRITON_SERVER_CPU_ONLY: { default: "0", meaning: "Any value except 0: GPUs are not used." },
  TRITONSERVER_DELAY_SCHEDULER: {
    default: "0",
    meaning: "For tests: the first batch of a dynamic or sequence batcher waits until so many requests are queued.",
  },
  TRITONSERVER_BACKLOG_DELAY_SCHEDULER: {
    default: "0",
    meaning: "For tests: with the variable before, so many requests of sequences without a slot must wait too.",
  },
  TRITON_SERVER_ESCAPE_LOG_MESSAGES: {
    default: "1",
    meaning: "0: log messages are written as they are, control characters included.",
  },
  TRITONCACHE_REDIS_USERNAME: { default: "none", meaning: "User of the Redis response cache." },
  TRITONCACHE_REDIS_PASSWORD: { default: "none", meaning: "Password of the Redis response cache." },
  OTEL_BSP_MAX_QUEUE_SIZE: { default: "2048", meaning: "Spans that wait for export before new ones are dropped." },
  OTEL_BSP_SCHEDULE_DELAY: { default: "5000", meaning: "Milliseconds between two exports of spans." },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    default: "http/protobuf",
    meaning: "Protocol of exported spans: grpc, http/protobuf or http/json.",
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: {
    default: "OTEL_EXPORTER_OTLP_PROTOCOL",
    meaning: "As OTEL_EXPORTER_OTLP_PROTOCOL, and preferred.",
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    default: "http://localhost:4318, grpc: http://localhost:4317",
    meaning: "Collector of spans. Over HTTP, v1/traces is appended.",
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    default: "OTEL_EXPORTER_OTLP_ENDPOINT",
    meaning: "As OTEL_EXPORTER_OTLP_ENDPOINT, and preferred. The URL is used as it is.",
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    default: "none",
    meaning: "Headers of exports: key=value pairs separated by commas, values percent-encoded.",
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: {
    default: "OTEL_EXPORTER_OTLP_HEADERS",
    meaning: "As OTEL_EXPORTER_OTLP_HEADERS, and preferred.",
  },
  OTEL_EXPORTER_OTLP_TIMEOUT: { default: "10000", meaning: "Milliseconds for one export with all its tries." },
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: {
    default: "OTEL_EXPORTER_OTLP_TIMEOUT",
    meaning: "As OTEL_EXPORTER_OTLP_TIMEOUT, and preferred.",
  },
  OTEL_EXPORTER_OTLP_COMPRESSION: { default: "none", meaning: "Compression of exports: none or gzip." },
  OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: {
    default: "OTEL_EXPORTER_OTLP_COMPRESSION",
    meaning: "As OTEL_EXPORTER_OTLP_COMPRESSION, and preferred.",
  },
  OTEL_EXPORTER_OTLP_INSECURE: {
    default: "false",
    meaning: "true: an endpoint of gRPC without a scheme is reached without TLS.",
  },
  OTEL_EXPORTER_OTLP_TRACES_INSECURE: {
    default: "OTEL_EXPORTER_OTLP_INSECURE",
    meaning: "As OTEL_EXPORTER_OTLP_INSECURE, and preferred.",
  },
  OTEL_EXPORTER_OTLP_CERTIFICATE: {
    default: "those of Node",
    meaning: "PEM file of the authorities that a collector's certificate is checked by.",
  },
  OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: {
    default: "OTEL_EXPORTER_OTLP_CERTIFICATE",
    meaning: "As OTEL_EXPORTER_OTLP_CERTIFICATE, and preferred.",
  },
  OTEL_EXPORTER_OTLP_CLIENT_KEY: {
    default: "none",
    meaning: "PEM file of the key that exports identify themselves with.",
  },
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: {
    default: "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    meaning: "As OTEL_EXPORTER_OTLP_CLIENT_KEY, and preferred.",
  },
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: { default: "none", meaning: "PEM file of the certificate of that key." },
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: {
    default: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    meaning: "As OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, and preferred.",
  },
  OTEL_RESOURCE_ATTRIBUTES: {
    default: "none",
    meaning: "Resource attributes of spans: key=value pairs separated by commas.",
  },
  OTEL_SERVICE_NAME: { default: "triton-inference-server", meaning: "Resource attribute service.name of spans." },
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: { default: "512", meaning: "Spans in one export." },
  AIP_MODE: { default: "not set", meaning: "PREDICTION: the protocol of Vertex AI is on, the others are off." },
  AIP_HTTP_PORT: { default: "8080", meaning: "Port of the Vertex AI protocol." },
  AIP_PREDICT_ROUTE: { default: "none", meaning: "Path of predictions. Required with Vertex AI." },
  AIP_HEALTH_ROUTE: { default: "none", meaning: "Path of the health check. Required with Vertex AI." },
  AIP_STORAGE_URI: { default: "none", meaning: "Model repository where no flag names one, with Vertex AI." },
  SAGEMAKER_TRITON_DEFAULT_MODEL_NAME: { default: "the only model", meaning: "Model that /invocations asks." },
  SAGEMAKER_TRITON_INFERENCE_TYPE: {
    default: "infer",
    meaning: "Kind of request that /invocations takes: infer, generate or generate_stream.",
  },
  SAGEMAKER_TRITON_PING_MODE: { default: "ready", meaning: "Health that /ping reports: ready or live." },
  K_SERVICE: { default: "not set", meaning: "Set by Knative: with PORT, all protocols share one port." },
  PORT: { default: "none", meaning: "The one port, where K_SERVICE is set." },
  NEREID_OLLAMA_REGISTRY: {
    default: "https://registry.ollama.ai",
    meaning: "Registry of models with names such as llama3.2:3b.",
  },
  HF_ENDPOINT: { default: "https://huggingface.co", meaning: "Address of the model hub." },
  HF_TOKEN: { default: "the token file", meaning: "Token for the model hub." },
  HUGGING_FACE_HUB_TOKEN: { default: "none", meaning: "Older name of HF_TOKEN." },
  HF_TOKEN_PATH: { default: "$HF_HOME/token", meaning: "File with the token." },
  HF_HOME: { default: "$XDG_CACHE_HOME/huggingface", meaning: "Folder of the hub's token and cache." },
  HF_HUB_CACHE: { default: "$HF_HOME/hub", meaning: "Cache of downloaded files." },
  HUGGINGFACE_HUB_CACHE: { default: "none", meaning: "Older name of HF_HUB_CACHE." },
  HF_HUB_OFFLINE: { default: "0", meaning: "1: only the cache is used." },
  TRANSFORMERS_OFFLINE: { default: "0", meaning: "1: as HF_HUB_OFFLINE." },
  HF_HUB_DOWNLOAD_TIMEOUT: { default: "30", meaning: "Seconds without a byte after which a download is tried again." },
  XDG_CACHE_HOME: {
    default: "~/.cache",
    meaning: "Root of caches: compiled kernels and measured algorithms of GPUs, files of the hub.",
  },
  UV_THREADPOOL_SIZE: {
    default: "max(8, 2 * processors + 4)",
    meaning: "Threads for files, name lookup and runs of ONNX models. The commands set the default.",
  },
  ORT_DISABLE_TELEMETRY: { default: "1", meaning: "Set by the commands: ONNX Runtime reports nothing." },
  LD_LIBRARY_PATH: { default: "none", meaning: "Searched for the libraries of CUDA after NEREID_CUDA_LIBRARIES." },
  CUDA_HOME: { default: "none", meaning: "CUDA toolkit, searched for its libraries." },
  CUDA_PATH: { default: "none", meaning: "As CUDA_HOME." },
  VIRTUAL_ENV: { default: "none", meaning: "Python environment, searched for NVIDIA's library packages." },
  PATH: { default: "the system's", meaning: "Python environments beside python3 are searched likewise." },
  npm_command: { default: "set by npm", meaning: "exec: started by npx, so the server ends with its parent." },
  TZ: { default: "the system's", meaning: "Time zone of dates in logs. Node itself reads it." },
} as const;

/** `process.env` is one, for it names TZ; a variable that the table lacks does not compile. */
export type Environment = { readonly [Name in keyof typeof SERVER_ENVIRONMENT]?: string | undefined };
