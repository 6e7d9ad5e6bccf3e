/** Why cases of upstream's suites do not pass here, by suite, name and message. The first row that fits is the reason. */
import type { CaseResult } from "./results.ts";

/** Checks whose reason is the first error of the server's log. */
export const NO_START = /(Failed|unable) to start/i;

interface KnownReason {
  readonly suite?: RegExp;
  readonly name?: RegExp;
  /** Fits the message of the failure. */
  readonly message?: RegExp;
  readonly reason: string;
}

const KNOWN: readonly KnownReason[] = [
  {
    suite: /L0_model_config/,
    name: /noautofill_platform\/(invalid_cpu|invalid_gpu|negative_gpu)/,
    reason: "with KIND_CPU for KIND_GPU the GPUs that the case is about are taken out of its configuration",
  },
  { suite: /L0_model_config/, name: /\/tensorrt\//, reason: "needs TensorRT, whose engine it reads" },
  { suite: /L0_model_config/, name: /\/pytorch\//, reason: "needs PyTorch" },
  { suite: /L0_model_config/, name: /\/openvino\//, reason: "needs the package openvino, which was not installed" },
  {
    suite: /L0_model_config/,
    name: /_success\/onnx\//,
    reason: "wants one instance, as on a GPU; an ONNX model has two on the CPU, as in Triton",
  },
  {
    suite: /L0_metrics/,
    name: /cpu_metrics_during_inference/,
    reason: "wants a CPU that is not busy all the time; the log of this run has 27 samples at 1.0 or 0.995",
  },
  { suite: /L0_output_validation/, reason: "needs the folder libtorch_model_store2, which no generator makes" },
  {
    suite: /L0_model_queue/,
    message: /expected less than \d+ms response time, got/,
    reason: "wants an answer within a time; two cores had a load of 22",
  },
  {
    suite: /L0_nullchar_string/,
    reason: "the second of its two models is TorchScript's, and the alias of an ONNX file has other names of inputs",
  },
  { suite: /L0_backend_onnxruntime/, reason: "needs a model of BF16, which the generators do not make in this run" },
  {
    suite: /L0_client_timeout/,
    reason: "copies the library of the identity backend, which is an empty file here, and runs a C++ program of NVIDIA",
  },
  {
    suite: /L0_onnx_optimization/,
    message: /TensorRT|CUDA|cuda|gpu|segment_size|parameter 'abc'/,
    reason: "needs execution providers of TensorRT and CUDA",
  },
  { suite: /L0_onnx_optimization/, message: /Configuring/, reason: "wants log lines of NVIDIA's ONNX Runtime backend" },
  { suite: /L0_onnx_optimization/, reason: "cases of the script fail, see the other rows" },
  {
    suite: /L0_grpc_state_cleanup/,
    name: /shutdownserver/,
    message: /not raised/,
    reason:
      "a race of the case: it sends the requests within milliseconds of SIGINT, and a server that has no CPU meanwhile reads them and the signal in one turn, and answers them all",
  },
  {
    suite: /L0_grpc_state_cleanup/,
    message: /expected a single response/,
    reason:
      "a model that is not decoupled and responds four times is refused; Triton sends the first response on streams",
  },
  { suite: /L0_infer$/, name: /Result Verification/, reason: "expects the number of cases with all backends" },
  { name: /^exit status 0$/, message: /ended by/, reason: "the script took longer than the time limit of this run" },
  { message: /cuda|CudaSharedMemory/i, reason: "needs a GPU" },
  { message: /memory of a GPU/, reason: "needs a GPU: a state that grows is memory of a GPU" },
  { suite: /implicit_state/, name: /Implicit State/, reason: "the script ends with its one case for GPUs" },
  { name: /Unit Test Failed|cc_client_test|C\+\+/i, reason: "a program built from NVIDIA's sources, absent here" },
  { name: /VULTURE/, reason: "counts the results of C++ clients, which are absent" },
  { name: /perf_analyzer/, reason: "a program built from NVIDIA's sources, absent here" },
  { message: /No module named 'torch'/, reason: "needs PyTorch" },
  { message: /TRITON_SERVER_VERSION/, reason: "needs a variable that NVIDIA's container sets" },
  {
    message: /tensorrt_plan|pytorch_libtorch|openvino/,
    reason: "asks for the platform of another runtime: the model is an ONNX alias",
  },
  { message: /port=8004|localhost:8004|Connection refused/, name: /basic_auth/i, reason: "needs nginx" },
  {
    name: /basic_auth|client_call|BasicAuth/i,
    message: /refused|8004/,
    reason: "needs nginx",
  },
  {
    suite: /L0_rate_limiter/,
    name: /limited_resource/,
    reason:
      "shares are 2 to 1 (`rate-limiter.test.ts`); the case counts up to 9 requests that the slower client sends after the end, so 80 to 45",
  },
  {
    suite: /L0_http$/,
    name: /chunked_manually/,
    reason: "stricter: Content-Length and chunks together are refused, as RFC 9112, 6.1 allows",
  },
  {
    suite: /L0_http$/,
    name: /deeply_nested/,
    reason: "another sentence: the depth of JSON is limited to 100 everywhere",
  },
  {
    suite: /L0_http$/,
    name: /get_model_repository_index/,
    reason: "counts the model densenet_onnx, whose weights are a download",
  },
  {
    suite: /L0_http$/,
    name: /max-input-size|multiple config groups|unknown restricted/,
    reason: "the sentence is written, above the usage and again below it; the script counts one line",
  },
  {
    suite: /L0_http$/,
    message: /non-empty chunks/,
    reason: "another end of the sentence; it was taken over after this run",
  },
  { suite: /L0_http$/, name: /AsyncIO|Many Chunks/, reason: "a case of it fails, see above" },
  {
    suite: /L0_parameters/,
    name: /test_headers/,
    reason: "blanks at the end of a header are no part of it (RFC 9110, 5.5)",
  },
  {
    suite: /L0_iterative_sequence/,
    name: /reschedule_error/,
    reason: "a sequence that runs is not idle here, so that its time limit does not end it",
  },
  {
    suite: /L0_model_update/,
    message: /Resource: R1/,
    reason: "looks for a line of the verbose log that lists resources, which is not written",
  },
  {
    suite: /L0_model_update/,
    message: /!= /,
    reason:
      "tells instances on GPUs from those on the CPU; with KIND_CPU for KIND_GPU the wanted instances are there already",
  },
  { suite: /L0_model_update/, message: /precondition/, reason: "runs in the second half of the script only" },
  { suite: /L0_simple_ensemble/, name: /partial_add_sub/, reason: "looks for a line of the log that is not written" },
  { suite: /L0_sagemaker/, reason: "needs the program `serve` of NVIDIA's container" },
  {
    suite: /L0_request_cancellation/,
    reason:
      "needs the variables TRITONSERVER_DELAY_GRPC_*, which are not honoured, or log lines of Triton's gRPC handlers",
  },
  { suite: /L0_backend_python/, reason: "wants Python 3.12" },
  { suite: /L0_server_status/, reason: "counts models that the runs here have more of, or lack" },
  {
    suite: /L0_socket/,
    name: /exit status/,
    reason: "stricter: a port out of range is refused even where its listener is off",
  },
  { suite: /L0_https|L0_secure_grpc/, reason: "needs nginx" },
  { suite: /L0_response_cache/, reason: "needs redis-server and programs built from NVIDIA's sources" },
  { suite: /L0_data_compression/, reason: "needs C++ clients, whose flags the Python ones lack" },
  {
    suite: /L0_cmdline_trace|L0_logging|L0_query/,
    name: /Test Failed|FAILED/i,
    reason: "a case of the script fails, see the others",
  },
  { suite: /L0_warmup/, reason: "needs PyTorch" },
  { suite: /L0_grpc$|L0_trace/, reason: "the script ends at a client in C++ or at nginx, which are absent" },
  { suite: /L0_decoupled/, reason: "needs PyTorch: ensembles name the tensors of its model" },
  {
    suite: /L0_infer_reshape/,
    name: /test_ff/,
    reason: "a model generated for TensorRT only, and the alias of an ONNX file that keeps its own shape",
  },
  { suite: /L0_model_update/, name: /Failed model instance update/, reason: "the cases above" },
];

/** Undefined for a failure that nobody has looked at. `others`: the results of the same suite. */
export function knownReason(result: CaseResult, others: readonly CaseResult[] = []): string | undefined {
  return looked(result) ?? told(result, others);
}

/** A reason that the results themselves give. */
function told({ file, name, reason }: CaseResult, others: readonly CaseResult[]): string | undefined {
  if (file !== "test.sh") return undefined;
  if (NO_START.test(name) && reason !== name) return `the server did not start: ${reason}`;
  const failed = others.filter((other) => other.outcome === "failed" && other.name !== name);
  const isSum = name === "exit status 0" || /(Test|Tests|Subtest) \S* ?Failed|Test \S+ Failed/.test(name);
  return isSum && failed.some((other) => other.file !== "test.sh" || name === "exit status 0")
    ? "cases of the script fail, see the other rows"
    : undefined;
}

function looked(result: CaseResult): string | undefined {
  return KNOWN.find(
    ({ suite = /./, name = /./, message = /(?:)/ }) =>
      suite.test(result.suite) && name.test(result.name) && message.test(result.reason),
  )?.reason;
}
