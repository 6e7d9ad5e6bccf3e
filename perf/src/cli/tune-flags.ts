/** Flags of `nereid tune`: those of Model Analyzer, then our own. */

export const TUNE_FLAGS = {
  "config-file": {
    type: "string",
    short: "f",
    value: "FILE",
    summary: "YAML with Model Analyzer's keys; flags go before it",
  },
  "model-repository": {
    type: "string",
    short: "m",
    value: "DIR",
    summary: "repository of a server that is started for this; it is only read",
  },
  "profile-models": { type: "string", short: "n", value: "NAMES", summary: "models to tune, with commas between them" },
  url: {
    type: "string",
    short: "u",
    aliases: ["triton-http-endpoint"],
    value: "HOST:PORT",
    summary: "HTTP of a server that runs, in place of --model-repository; it needs explicit model control",
  },
  "grpc-url": {
    type: "string",
    aliases: ["triton-grpc-endpoint"],
    value: "HOST:PORT",
    summary: "its gRPC; default port 8001",
  },
  "triton-launch-mode": {
    type: "string",
    choices: ["local", "remote", "docker", "c_api"],
    summary: "remote: as --url localhost:8000; docker and c_api start the server as local does",
  },
  apply: {
    type: "switch",
    summary: "with --url: leave the best configuration loaded; else the one found is loaded again",
  },
  "client-protocol": {
    type: "string",
    short: "i",
    choices: ["http", "grpc"],
    default: "http",
    summary: "protocol of the load",
  },
  header: {
    type: "string",
    short: "H",
    many: "repeated",
    value: "NAME:VALUE",
    summary: "header field of each request",
  },
  "server-flag": {
    type: "string",
    many: "repeated",
    value: "FLAG",
    summary: "flag of the started server: --server-flag=--backend-config=...",
  },
} as const;

export const SEARCH_FLAGS = {
  "run-config-search-mode": {
    type: "string",
    choices: ["quick", "brute"],
    default: "quick",
    summary: "quick: a climb to the best neighbours; brute: a look at every one",
  },
  exhaustive: { type: "switch", summary: "measure every configuration under every load to the end" },
  "run-config-search-min-concurrency": { type: "integer", min: 1, default: 1, summary: "smallest load" },
  "run-config-search-max-concurrency": { type: "integer", min: 1, default: 1024, summary: "largest load" },
  "run-config-search-min-model-batch-size": { type: "integer", min: 1, default: 1, summary: "smallest max_batch_size" },
  "run-config-search-max-model-batch-size": {
    type: "integer",
    min: 1,
    default: 128,
    summary: "largest max_batch_size",
  },
  "run-config-search-min-instance-count": { type: "integer", min: 1, default: 1, summary: "fewest instances" },
  "run-config-search-max-instance-count": { type: "integer", min: 1, default: 5, summary: "most instances" },
  concurrency: {
    type: "string",
    short: "c",
    value: "LIST",
    summary: "loads: 1,2,4; default: doublings within the limits",
  },
  "queue-delays": {
    type: "string",
    value: "LIST",
    default: "0,500,5000",
    summary: "max_queue_delay_microseconds to try",
  },
  "thread-counts": {
    type: "string",
    value: "LIST",
    summary: "intra_op_thread_count of ONNX models to try",
  },
  "token-budgets": { type: "string", value: "LIST", summary: "max_num_tokens of language models to try" },
  parameter: {
    type: "string",
    many: "repeated",
    value: "NAME=LIST",
    summary: "values of another entry of 'parameters' to try",
  },
  "run-config-search-disable": { type: "switch", summary: "only the settings of --config-file and of the flags above" },
  "latency-budget": { type: "number", short: "l", min: 0, value: "MS", summary: "p99 latency that is kept" },
  "min-throughput": { type: "number", min: 0, value: "N", summary: "inferences a second that are kept" },
  objective: {
    type: "string",
    many: "repeated",
    value: "NAME=WEIGHT",
    summary: "perf_throughput (default), perf_latency_avg, _p90, _p95 or _p99",
  },
} as const;

export const LOAD_FLAGS = {
  "measurement-interval": {
    type: "integer",
    short: "p",
    min: 100,
    default: 3000,
    value: "MS",
    summary: "time of a whole measurement of one point",
  },
  "batch-size": {
    type: "integer",
    short: "b",
    aliases: ["batch-sizes"],
    min: 1,
    default: 1,
    summary: "rows of each request",
  },
  streaming: { type: "switch", summary: "gRPC streams, for decoupled models; needs -i grpc" },
  "input-data": {
    type: "string",
    many: "repeated",
    value: "SOURCE",
    summary: "zero, random (default), a JSON file or a folder, as of nereid bench",
  },
  shape: { type: "string", many: "repeated", value: "NAME:DIMS", summary: "shape of an input: name:1,2,3" },
  "string-length": { type: "integer", min: 0, default: 128, summary: "length of random strings" },
  seed: { type: "integer", default: 0, summary: "of all random choices" },
  "max-threads": { type: "integer", min: 1, default: 1, summary: "threads of the load generator" },
} as const;

export const OUTPUT_FLAGS = {
  "output-model-repository-path": {
    type: "string",
    value: "DIR",
    default: "output_model_repository",
    summary: "folder for MODEL/config.pbtxt of each model",
  },
  "override-output-model-repository": { type: "switch", summary: "replace files that are there" },
  "export-path": {
    type: "string",
    short: "e",
    value: "DIR",
    default: ".",
    summary: "folder for tune.html, tune.json and tune.csv",
  },
} as const;
