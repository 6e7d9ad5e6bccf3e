/**
 * Descriptions of the server and of its models, and changes of its settings. Source: HandleServerMetadata, HandleTrace, HandleLogging
 * and HandleRepositoryControl of Triton 2.70 (server/src/http_server.cc).
 */
import type { HttpRow } from "../http-row.ts";

const TRACE = "POST /v2/trace/setting";
const LOAD = "POST /v2/repository/models/grid/load";

function get(rule: string, to: string, says: HttpRow["says"]): HttpRow {
  return { rule, to, status: 200, says };
}

function refused(rule: string, to: string, body: object, status: number, says: HttpRow["says"]): HttpRow {
  return { rule, to, body, status, says };
}

export const DESCRIBE_ROWS: readonly HttpRow[] = [
  get(
    "extensions in their order",
    "/v2",
    /"extensions":\["classification","sequence","model_repository","model_repository\(unload_dependents\)","schedule_policy","model_configuration","system_shared_memory","cuda_shared_memory","binary_tensor_data","parameters","statistics","trace","logging"\]\}$/,
  ),
  get(
    "a batch dimension in front",
    "/v2/models/grid",
    '{"name":"grid","versions":["1"],"platform":"identity","inputs":[{"name":"X","datatype":"INT32","shape":[-1,2]}],"outputs":[{"name":"Y","datatype":"INT32","shape":[-1,2]}]}',
  ),
  get(
    "none without batches",
    "/v2/models/echo_BYTES/versions/1",
    /"inputs":\[\{"name":"X","datatype":"BYTES","shape":\[-1\]\}\]/,
  ),
  get(
    "dimensions are numbers, ids texts",
    "/v2/models/grid/config",
    /"dims":\[2\].*"instance_group":\[\{"name":"grid_0","kind":"KIND_CPU","count":1/,
  ),
  get(
    "defaults are printed",
    "/v2/models/echo_INT8/config",
    /^\{"name":"echo_INT8","platform":"","backend":"identity","runtime":"","version_policy":\{"latest":\{"num_versions":1\}\},"max_batch_size":0,/,
  ),
  get(
    "statistics of a version",
    "/v2/models/clash/versions/1/stats",
    /^\{"model_stats":\[\{"name":"clash","version":"1","last_inference":0,"inference_count":0,"execution_count":0,"inference_stats":\{"success":\{"count":0,"ns":0\},"fail":\{"count":0,"ns":0\},/,
  ),
  get(
    "no batches yet",
    "/v2/models/clash/stats",
    /"response_stats":\{\},"batch_stats":\[\],"memory_usage":\[\]\}\]\}$/,
  ),
  get(
    "a model's trace settings are the server's",
    "/v2/models/clash/trace/setting",
    '{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"","trace_mode":"triton"}',
  ),
  refused(
    "a rate beyond its range",
    TRACE,
    { trace_rate: "99999999999999999999" },
    400,
    /^Unable to parse 'trace_rate', value is out of range \[ 0, 4294967295 \], got: 99999999999999999999$/,
  ),
  refused("a rate in words", TRACE, { trace_rate: "often" }, 400, /^Unable to parse 'trace_rate', got: often$/),
  refused(
    "a count below -1",
    TRACE,
    { trace_count: "-2" },
    400,
    "Unable to parse 'trace_count'. Expecting value >= -1, got:-2",
  ),
  refused(
    "OFF beside another level",
    TRACE,
    { trace_level: ["OFF", "TIMESTAMPS"] },
    400,
    "Expect only one trace level 'OFF' is specified",
  ),
  refused(
    "a level without a file",
    TRACE,
    { trace_level: ["TIMESTAMPS"] },
    400,
    "Attempting to set invalid trace setting :trace file name is not given",
  ),
  refused(
    "another file",
    TRACE,
    { trace_file: "other.json" },
    501,
    "trace file location can not be updated through network protocol",
  ),
  refused(
    "another log file",
    "POST /v2/logging",
    { log_file: "other.log" },
    501,
    "log file location can not be updated through network protocol",
  ),
  refused(
    "a format that is none",
    "POST /v2/logging",
    { log_format: "JSON" },
    503,
    /^invalid argument for (?:--)?log_format, got: JSON$/,
  ),
  refused(
    "files without a configuration",
    LOAD,
    { parameters: { "file:1/model.bin": "AAAA" } },
    500,
    "failed to load 'grid', failed to poll from model repository",
  ),
  refused(
    "an unknown load parameter",
    LOAD,
    { parameters: { mode: "fast" } },
    500,
    /^unexpected error on creating Triton parameter/,
  ),
  refused(
    "a repository in the path",
    "POST /v2/repository/other/models/grid/load",
    {},
    501,
    "'repository_name' specification is not supported",
  ),
  refused(
    "a model that is not there",
    "POST /v2/repository/models/gone/load",
    {},
    500,
    "failed to load 'gone', failed to poll from model repository",
  ),
  { rule: "unloading what is not there", to: "POST /v2/repository/models/gone/unload", status: 200, says: "" },
  {
    rule: "a model is unloaded",
    to: "POST /v2/repository/models/clash/unload",
    body: { parameters: { unload_dependents: false } },
    status: 200,
    says: "",
  },
  {
    rule: "it is not found then",
    to: "/v2/models/clash",
    status: 404,
    says: /^Request for unknown model: 'clash' (?:is not found|has no available versions)$/,
  },
  { rule: "still alive", to: "/v2/health/live", status: 200, says: "", type: "text/plain" },
  { rule: "and ready", to: "/v2/health/ready", status: 200, says: "", type: "text/plain" },
  { rule: "loaded again", to: "POST /v2/repository/models/clash/load", status: 200, says: "" },
  { rule: "its statistics begin again", to: "/v2/models/clash/stats", status: 200, says: /"inference_count":0/ },
];
