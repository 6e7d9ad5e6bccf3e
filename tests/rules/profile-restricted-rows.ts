/** Rules of restricted routes (server, restricted_features.h): the group decides, and the value is compared byte by byte. */
import { type HttpRow, TEXT } from "./http-row.ts";

const BODY = { inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [5] }] };
const OF_PASS = "This API is restricted, expecting header 'pass'";
const OF_STATISTICS = "This API is restricted, expecting header 'stat-key'";
const OF_HEALTH = "This API is restricted, expecting header 'h'";

function closed(to: string, says: string, rule: string, headers: HttpRow["headers"] = {}): HttpRow {
  return { rule, to, headers, ...(to.startsWith("POST") ? { body: BODY } : {}), status: 403, says, type: TEXT };
}

export const RESTRICTED_ROWS: readonly HttpRow[] = [
  closed("POST /v2/models/floats/infer", OF_PASS, "no key"),
  closed("POST /v2/models/floats/infer", OF_PASS, "a wrong value", { pass: "open" }),
  closed("POST /v2/models/floats/infer", OF_PASS, "another case", { pass: "Open it" }),
  closed("POST /v2/models/floats/infer", OF_PASS, "the key of another group", { "stat-key": "7" }),
  closed("POST /v2/models/nothing/infer", OF_PASS, "an unknown model without a key"),
  closed("POST /v2/models/floats/generate", OF_PASS, "generating counts as inference"),
  closed("POST /v2/models/floats/generate_stream", OF_PASS, "streams count as inference"),
  closed("/v2/models/floats/config", OF_PASS, "configurations are of the same group"),
  closed("/v2/models/floats/versions/1/config", OF_PASS, "a version's configuration"),
  closed("/v2/models/floats/stats", OF_STATISTICS, "statistics of a model"),
  closed("/v2/models/stats", OF_STATISTICS, "statistics of all"),
  closed("/v2/models/floats/stats", OF_STATISTICS, "a longer value", { "stat-key": "77" }),
  closed("/v2/health/live", OF_HEALTH, "liveness"),
  closed("/v2/health/ready", OF_HEALTH, "readiness"),
  closed("/v2/models/floats/ready", OF_HEALTH, "a model's readiness"),
  closed("/v2/health/live", OF_HEALTH, "part of a value with an equals sign", { h: "x" }),
  closed("/v2/trace/setting", OF_HEALTH, "traces"),
  closed("/v2/models/floats/trace/setting", OF_HEALTH, "traces of a model"),
  closed("/v2/systemsharedmemory/status", OF_HEALTH, "regions"),
  closed("/v2/cudasharedmemory/status", OF_HEALTH, "CUDA regions"),
  {
    rule: "a value with an equals sign",
    to: "/v2/health/ready",
    headers: { h: "x=y" },
    status: 200,
    says: "",
    type: TEXT,
  },
  {
    rule: "a key in another case",
    to: "/v2/models/stats",
    headers: { "STAT-KEY": "7" },
    status: 200,
    says: /^\{"model_stats":\[\{"name":"floats"/,
  },
  {
    rule: "a value with a blank",
    to: "POST /v2/models/floats/infer",
    headers: { pass: "open it" },
    body: BODY,
    status: 200,
    says: '{"model_name":"floats","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[1],"data":[5.0]}]}',
  },
  { rule: "metadata is open", to: "/v2/models/floats", status: 200, says: /^\{"name":"floats","versions":\["1"\]/ },
  { rule: "the index is open", to: "POST /v2/repository/index", status: 200, says: /^\[\{"name":"floats"/ },
  { rule: "log settings are open", to: "/v2/logging", status: 200, says: /^\{"log_file":""/ },
];
