/**
 * The command-line flags of tritonserver: groups, names, kinds of value and descriptions. Source: Triton's
 * `tritonserver --help`. Knows no values and no parsing.
 */
import type { FlagGroup, ServerFlag } from "./server-flag.ts";

type Row = readonly [name: string, value: string, description: string];

const TEXT = "<string>";
const INTEGER = "<integer>";
const BOOLEAN = "<boolean>";
const FLOAT = "<float>";
const NOTHING = "";
const RESTRICTED_NAMES =
  "Names: health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging.";

const GROUPS: readonly (readonly [title: string, rows: readonly Row[]])[] = [
  ["", [["help", NOTHING, "Print usage"]]],
  [
    "Server",
    [
      ["id", TEXT, "Name under which the server presents itself. Default is triton."],
      [
        "exit-timeout-secs",
        INTEGER,
        "Seconds that a stopping server waits for requests in flight before it exits anyway. Default is 30.",
      ],
      [
        "drain-delay-secs",
        INTEGER,
        "Seconds that a stopping server is not ready and serves on, for balancers to notice, before that. Default is 0.",
      ],
      ["workers", INTEGER, "Processes with all models, which SIGHUP replaces in turn; 0: no supervisor. Default is 0."],
    ],
  ],
  [
    "Logging",
    [
      ["log-verbose", INTEGER, "Level of verbose messages; 0 turns them off. Default is 0."],
      ["log-info", BOOLEAN, "Whether informational messages are logged. Default is true."],
      ["log-warning", BOOLEAN, "Whether warnings are logged. Default is true."],
      ["log-error", BOOLEAN, "Whether errors are logged. Default is true."],
      [
        "log-format",
        TEXT,
        'Style of a line: "default" (LMMDD hh:mm:ss.ssssss), "ISO8601" (YYYY-MM-DDThh:mm:ssZ L) or "json" (one object a line).',
      ],
      ["log-file", TEXT, "File that takes all messages instead of the console."],
    ],
  ],
  [
    "Model Repository",
    [
      ["model-store", TEXT, "Another name of --model-repository."],
      [
        "model-repository",
        TEXT,
        "Folder with the models. May be given several times; a model in more than one of the folders is not served.",
      ],
      ["exit-on-error", BOOLEAN, "Whether the process ends when a model cannot be loaded at start. Default is true."],
      [
        "disable-auto-complete-config",
        NOTHING,
        "Take config.pbtxt files as they are; what they leave out is not read from the model.",
      ],
      [
        "strict-readiness",
        BOOLEAN,
        "Whether /v2/health/ready also waits for every model, or for the server alone. Default is true.",
      ],
      [
        "model-control-mode",
        TEXT,
        'Who decides which models are loaded: "none" (all of them, once, at start), "poll" (the repository is watched) or "explicit" (--load-model and the repository API). Default is "none".',
      ],
      ["model-load-overrides", "<allow|names-only>", "Whether loads bring files, or names. Default is allow."],
      ["repository-poll-secs", INTEGER, "Seconds between two looks at the repository in mode poll. Default is 15."],
      [
        "load-model",
        TEXT,
        "Model to load at start in mode explicit. May be given several times; a single * means all models.",
      ],
      [
        "model-config-name",
        TEXT,
        "Name of the configuration to use: configs/<name>.pbtxt of a model where that file exists.",
      ],
      ["model-load-thread-count", INTEGER, "How many models load at the same time. Default is 4."],
      ["model-load-retry-count", INTEGER, "How often a failed load is tried again. Default is 0."],
      ["model-namespacing", BOOLEAN, "Whether repositories may hold models of the same name. Default is false."],
      ["enable-peer-access", BOOLEAN, "Whether GPUs may read each other's memory. Default is true."],
    ],
  ],
  [
    "HTTP",
    [
      ["allow-console", BOOLEAN, "Whether the console is served (/console). Default is true on a loopback address."],
      ["allow-http", BOOLEAN, "Whether HTTP requests are served. Default is true."],
      ["http-address", TEXT, "Address to listen on for HTTP, or unix:<path of a socket>. Default is 0.0.0.0."],
      ["http-port", INTEGER, "Port to listen on for HTTP. Default is 8000."],
      ["reuse-http-port", BOOLEAN, "Whether several servers may share the HTTP port. Default is false."],
      [
        "http-header-forward-pattern",
        TEXT,
        "Regular expression; headers whose name matches become parameters of the inference request.",
      ],
      ["http-thread-count", INTEGER, "Threads that read and write large JSON, no more than processors. Default is 8."],
      ["http-use-ssl", BOOLEAN, "Whether HTTP is served over TLS. Default is false."],
      ["http-use-ssl-mutual", BOOLEAN, "Whether clients must show a certificate too; turns TLS on. Default is false."],
      ["http-server-cert", TEXT, "PEM file with the certificate of the server."],
      ["http-server-key", TEXT, "PEM file with the private key of the server."],
      ["http-root-cert", TEXT, "PEM file with the authorities that sign the certificates of clients."],
      [
        "http-max-connection-age",
        INTEGER,
        "Milliseconds after which a connection is closed with its next answer; 0 is no limit. Default is 0.",
      ],
      [
        "one-port",
        BOOLEAN,
        "Whether HTTP/1.1, HTTP/2 and gRPC share the HTTP port. Default is true if K_SERVICE and PORT are set, and the port is then PORT.",
      ],
      ["http-max-input-size", INTEGER, "Bytes that a request may hold, inflated. Default is 67108864."],
      [
        "cors-origins",
        "<origin>,<origin>",
        "Origins of pages whose browsers may read answers of the HTTP and OpenAI ports; * is every one. Default is none.",
      ],
      ["cors-metrics", BOOLEAN, "Whether these origins may read the metrics too. Default is false."],
      [
        "http-restricted-api",
        "<string>:<string>=<string>",
        `APIs that need a header: <api>,<api>:<header>=<value>. ${RESTRICTED_NAMES}`,
      ],
    ],
  ],
  [
    "GRPC",
    [
      ["allow-grpc", BOOLEAN, "Whether gRPC requests are served. Default is true."],
      ["grpc-address", TEXT, "Address to listen on for gRPC, or unix:<path of a socket>. Default is 0.0.0.0."],
      ["grpc-port", INTEGER, "Port to listen on for gRPC. Default is 8001."],
      ["reuse-grpc-port", BOOLEAN, "Whether several servers may share the gRPC port. Default is false."],
      [
        "grpc-header-forward-pattern",
        TEXT,
        "Regular expression; metadata whose name matches become parameters of the inference request.",
      ],
      [
        "grpc-infer-thread-count",
        INTEGER,
        "Accepted for compatibility: threads for gRPC inference, 2 to 128. Default is 2.",
      ],
      [
        "grpc-infer-allocation-pool-size",
        INTEGER,
        "Accepted for compatibility: request states kept for reuse. Default is 8.",
      ],
      [
        "grpc-max-response-pool-size",
        INTEGER,
        "Responses of one stream that may wait for a slow client. Default is 2147483647.",
      ],
      ["grpc-use-ssl", BOOLEAN, "Whether gRPC is served over TLS. Default is false."],
      ["grpc-use-ssl-mutual", BOOLEAN, "Whether clients must show a certificate too; turns TLS on. Default is false."],
      ["grpc-server-cert", TEXT, "PEM file with the certificate of the server."],
      ["grpc-server-key", TEXT, "PEM file with the private key of the server."],
      ["grpc-root-cert", TEXT, "PEM file with the authorities that sign the certificates of clients."],
      [
        "grpc-infer-response-compression-level",
        TEXT,
        "Compression of inference responses: none, low, medium or high. Default is none.",
      ],
      ["grpc-keepalive-time", INTEGER, "Milliseconds between two pings of the server. Default is 7200000."],
      ["grpc-keepalive-timeout", INTEGER, "Milliseconds within which a ping must be answered. Default is 20000."],
      [
        "grpc-keepalive-permit-without-calls",
        BOOLEAN,
        "Whether connections without calls are pinged too. Default is false.",
      ],
      [
        "grpc-http2-max-pings-without-data",
        INTEGER,
        "Pings that may be sent without any data between them; 0 is no limit. Default is 2.",
      ],
      [
        "grpc-http2-min-recv-ping-interval-without-data",
        INTEGER,
        "Milliseconds that must pass between two pings of a client without data. Default is 300000.",
      ],
      [
        "grpc-http2-max-ping-strikes",
        INTEGER,
        "Pings that may come too early before the connection is closed; 0 is no limit. Default is 2.",
      ],
      ["grpc-max-connection-age", INTEGER, "Milliseconds that a connection may live; 0 is no limit. Default is 0."],
      ["grpc-max-connection-age-grace", INTEGER, "Milliseconds that calls may go on after that. Default is 0."],
      [
        "grpc-restricted-protocol",
        "<string>:<string>=<string>",
        `Protocols that need metadata triton-grpc-protocol-<key>: <protocol>,<protocol>:<key>=<value>. ${RESTRICTED_NAMES}`,
      ],
    ],
  ],
  [
    "OpenAI",
    [
      ["allow-openai", BOOLEAN, "Whether OpenAI's API (/v1) is served, at the HTTP port. Default is true."],
      ["openai-port", INTEGER, "Port to listen on for OpenAI's API beside that of HTTP. Default is none."],
      [
        "openai-frontend",
        "<openai|triton>",
        "Errors and list of models as OpenAI gives them, or as Triton's own OpenAI front end does. Default is openai.",
      ],
      [
        "allow-lora-updates",
        BOOLEAN,
        "Whether /v1/load_lora_adapter and /v1/unload_lora_adapter work. Adapters come from a model's lora_dir only. Default is false.",
      ],
      ["allow-mcp", BOOLEAN, "Whether models are tools of MCP (/mcp), by the package @nereid/mcp. Default is false."],
      [
        "openai-restricted-api",
        "<string> <string> <string>",
        "APIs of the OpenAI routes that need a header: <api>,<api> <header> <value>. Names: inference, embedding, model-repository, model-management, metrics, health. May be given several times.",
      ],
      [
        "openai-files-dir",
        TEXT,
        "Folder that keeps the files and batches of OpenAI's API, made if it is missing. Default is none: their routes are off.",
      ],
      [
        "openai-batch-concurrency",
        INTEGER,
        "Requests of all batches that run at once. They have a low priority. Default is 8.",
      ],
      [
        "api-key-file",
        TEXT,
        "JSON file with digests and limits of API keys. The APIs of OpenAI, Anthropic and Ollama need one then.",
      ],
      [
        "api-keys-for",
        "<string>,<string>",
        "Routes that need an API key: openai (with Anthropic's and Ollama's), v2, grpc, sagemaker, vertex-ai. Health needs none. Default is openai.",
      ],
      [
        "usage-ledger",
        TEXT,
        "File that gets one JSON line for each request with an API key. Token budgets are counted from it.",
      ],
    ],
  ],
  [
    "Sagemaker",
    [
      ["allow-sagemaker", BOOLEAN, "Whether SageMaker requests are served. Default is false."],
      ["sagemaker-port", INTEGER, "Port to listen on for SageMaker. Default is 8080."],
      ["sagemaker-safe-port-range", "<integer>-<integer>", "Ports that the other services must use beside SageMaker."],
      ["sagemaker-thread-count", INTEGER, "Accepted for compatibility: threads for SageMaker. Default is 8."],
    ],
  ],
  [
    "Vertex",
    [
      [
        "allow-vertex-ai",
        BOOLEAN,
        "Whether Vertex AI requests are served. Default is true if AIP_MODE is PREDICTION, else false.",
      ],
      ["vertex-ai-port", INTEGER, "Port to listen on for Vertex AI. Default is AIP_HTTP_PORT, or 8080."],
      ["vertex-ai-thread-count", INTEGER, "Accepted for compatibility: threads for Vertex AI. Default is 8."],
      ["vertex-ai-default-model", TEXT, "Model that answers plain predictions."],
    ],
  ],
  [
    "Metrics",
    [
      ["allow-metrics", BOOLEAN, "Whether metrics are served. Default is true."],
      ["allow-gpu-metrics", BOOLEAN, "Whether metrics of GPUs are among them. Default is true."],
      ["allow-cpu-metrics", BOOLEAN, "Whether metrics of the CPU are among them. Default is true."],
      ["metrics-address", TEXT, "Address to listen on for metrics. Default is that of HTTP."],
      ["metrics-port", INTEGER, "Port to listen on for metrics. Default is 8002."],
      ["metrics-interval-ms", FLOAT, "Milliseconds between two readings of the machine's state. Default is 2000."],
      [
        "metrics-config",
        "<string>=<string>",
        "Setting of the metrics: counter_latencies, summary_latencies, summary_quantiles or histogram_latencies. May be given several times.",
      ],
    ],
  ],
  [
    "Tracing",
    [
      [
        "trace-config",
        "<string>,<string>=<string>",
        "Setting of tracing: level, rate, count or mode, or one of a mode as <mode>,<setting>=<value> with mode triton or opentelemetry. May be given several times.",
      ],
    ],
  ],
  [
    "Backend",
    [
      ["backend-directory", TEXT, "Folder of backends, shown at start. Default is /opt/tritonserver/backends."],
      [
        "backend-config",
        "<string>,<string>=<string>",
        "Setting of a backend: <backend>,<setting>=<value>; without the backend it is for all. May be given several times.",
      ],
    ],
  ],
  [
    "Repository Agent",
    [["repoagent-directory", TEXT, "Folder of repository agents. Default is /opt/tritonserver/repoagents."]],
  ],
  [
    "Response Cache",
    [
      [
        "cache-config",
        "<string>,<string>=<string>",
        "Turns the response cache on: <cache>,<setting>=<value>, e.g. local,size=1048576.",
      ],
      ["cache-directory", TEXT, "Folder of response caches. Default is /opt/tritonserver/caches."],
    ],
  ],
  [
    "Rate Limiter",
    [
      ["rate-limit", TEXT, 'Whether executions wait for resources: "execution_count" or "off". Default is "off".'],
      [
        "rate-limit-resource",
        "<string>:<integer>:<integer>",
        "How much of a resource there is: <name>:<count>, or <name>:<count>:<device> for one device.",
      ],
    ],
  ],
  [
    "Memory/Device Management",
    [
      ["pinned-memory-pool-byte-size", INTEGER, "Bytes of pinned system memory. Default is 268435456."],
      [
        "cuda-memory-pool-byte-size",
        "<integer>:<integer>",
        "Bytes of memory taken from a GPU: <device>:<bytes>. Default is 67108864 each.",
      ],
      [
        "cuda-virtual-address-size",
        "<integer>:<integer>",
        "Bytes of addresses for growing states of a GPU: <device>:<bytes>. Default is 1 GiB each.",
      ],
      ["min-supported-compute-capability", FLOAT, "Compute capability below which a GPU is not used. Default is 0."],
      ["buffer-manager-thread-count", INTEGER, "Accepted for compatibility: threads that copy tensors. Default is 0."],
      [
        "host-policy",
        "<string>,<string>=<string>",
        "Placement of instances: <policy>,numa-node=<n> or <policy>,cpu-cores=<from>-<to>.",
      ],
      [
        "model-load-gpu-limit",
        "<device_id>:<fraction>",
        "Share of a GPU's memory above which no model is loaded onto it.",
      ],
    ],
  ],
  [
    "Shared Memory",
    [["allow-client-shm", BOOLEAN, "Whether clients may register regions of shared memory. Default is false."]],
  ],
  [
    "DEPRECATED",
    [
      ["strict-model-config", BOOLEAN, "DEPRECATED: true is --disable-auto-complete-config."],
      ["response-cache-byte-size", INTEGER, "DEPRECATED: use --cache-config=local,size=<bytes>."],
      ["trace-file", TEXT, "DEPRECATED: use --trace-config=triton,file=<path>."],
      ["trace-level", TEXT, "DEPRECATED: use --trace-config=level=<OFF|TIMESTAMPS|TENSORS>."],
      ["trace-rate", INTEGER, "DEPRECATED: use --trace-config=rate=<n>."],
      ["trace-count", INTEGER, "DEPRECATED: use --trace-config=count=<n>."],
      ["trace-log-frequency", INTEGER, "DEPRECATED: use --trace-config=triton,log-frequency=<n>."],
    ],
  ],
];

export const FLAG_GROUPS: readonly FlagGroup[] = GROUPS.map(([title, rows]) => ({
  title,
  flags: rows.map(([name, value, description]) => ({ name, value: value || undefined, description })),
}));

export const FLAGS: readonly ServerFlag[] = FLAG_GROUPS.flatMap(({ flags }) => flags);
