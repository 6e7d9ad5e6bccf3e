/** Rules of explicit control and of the index (server, http_server.cc; core, model_repository_manager.cc). */
import type { HttpRow } from "./http-row.ts";

const FLOATS = `backend: "identity" input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]
  output [ { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } ] instance_group [ { kind: KIND_CPU } ]`;

export const CONTROL_MODELS: Readonly<Record<string, string>> = {
  "kept/config.pbtxt": FLOATS,
  "spare/config.pbtxt": FLOATS,
  "three/config.pbtxt": `${FLOATS} version_policy { specific { versions: [ 1, 3 ] } }`,
  "three/2/.keep": "",
  "three/3/.keep": "",
  "newest/config.pbtxt": `${FLOATS} version_policy { latest { num_versions: 2 } }`,
  "newest/7/.keep": "",
  "newest/12/.keep": "",
  "broken/config.pbtxt": 'backend: "identity" input [ {',
  "renamed/config.pbtxt": `name: "other" ${FLOATS}`,
  "nobackend/config.pbtxt": FLOATS.replace("identity", "nosuch"),
};

const LOAD = "POST /v2/repository/models";
const NOT_POLLED = (name: string): string => `failed to load '${name}', failed to poll from model repository`;

function load(name: string, rule: string, status: number, says: HttpRow["says"], body?: HttpRow["body"]): HttpRow {
  return { rule, to: `${LOAD}/${name}/load`, ...(body === undefined ? {} : { body }), status, says };
}

function unload(name: string, rule: string, status: number, says: HttpRow["says"], body?: HttpRow["body"]): HttpRow {
  return { rule, to: `${LOAD}/${name}/unload`, ...(body === undefined ? {} : { body }), status, says };
}

function index(rule: string, rows: readonly string[], body?: HttpRow["body"]): HttpRow {
  const says = `[${rows.join(",")}]`;
  return { rule, to: "POST /v2/repository/index", ...(body === undefined ? {} : { body }), status: 200, says };
}

function row(name: string, version = "", state = "READY", reason = ""): string {
  if (version === "") return `{"name":"${name}"}`;
  const why = reason === "" ? "" : `,"reason":"${reason}"`;
  return `{"name":"${name}","version":"${version}","state":"${state}"${why}}`;
}

const ready = (to: string, rule: string): HttpRow => ({ rule, to, status: 200, says: "", type: "text/plain" });
const notReady = (to: string, rule: string): HttpRow => ({
  rule,
  to,
  status: 400,
  says: "Model version not ready",
  type: "text/plain",
});
const missing = (to: string, rule: string, says: string): HttpRow => ({ rule, to, status: 404, says });

const CONFIG = JSON.stringify({
  backend: "identity",
  max_batch_size: 3,
  input: [{ name: "X", data_type: "TYPE_FP32", dims: [2] }],
  output: [{ name: "Y", data_type: "type_fp32", dims: [2] }],
});

export const CONTROL_ROWS: readonly HttpRow[] = [
  index("never loaded models have a name only", [
    row("broken"),
    row("kept", "1"),
    row("newest"),
    row("nobackend"),
    row("renamed"),
    row("spare"),
    row("three", "1"),
    row("three", "3"),
  ]),
  index("ready ones", [row("kept", "1"), row("three", "1"), row("three", "3")], { ready: true }),
  {
    rule: "a text as ready",
    to: "POST /v2/repository/index",
    body: { ready: "true" },
    status: 400,
    says: "Invalid value for 'ready': expected a boolean",
  },
  {
    rule: "null as ready",
    to: "POST /v2/repository/index",
    body: { ready: null },
    status: 400,
    says: "Invalid value for 'ready': expected a boolean",
  },
  {
    rule: "loading in a named repository",
    to: "POST /v2/repository/main/models/spare/load",
    status: 501,
    says: "'repository_name' specification is not supported",
  },
  {
    rule: "unloading in a named repository",
    to: "POST /v2/repository/main/models/spare/unload",
    status: 501,
    says: "'repository_name' specification is not supported",
  },
  ready("/v2/models/three/versions/3/ready", "a version of the policy"),
  notReady("/v2/models/three/versions/2/ready", "a version beside the policy"),
  missing(
    "/v2/models/three/versions/2",
    "a version beside the policy",
    "Request for unknown model: 'three' version 2 is not found",
  ),
  missing(
    "/v2/models/three/versions/2/config",
    "its configuration",
    "Request for unknown model: 'three' version 2 is not found",
  ),
  {
    rule: "versions ascend",
    to: "/v2/models/three",
    status: 200,
    says: /^\{"name":"three","versions":\["1","3"\],"platform":"identity","inputs":\[\{"name":"X","datatype":"FP32","shape":\[-1\]\}\]/,
  },
  { rule: "one version", to: "/v2/models/three/versions/1", status: 200, says: /^\{"name":"three","versions":\["1"\]/ },
  {
    rule: "the highest version serves",
    to: "POST /v2/models/three/infer",
    body: { inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [1] }] },
    status: 200,
    says: /^\{"model_name":"three","model_version":"3"/,
  },
  {
    rule: "a named version serves",
    to: "POST /v2/models/three/versions/1/infer",
    body: { inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [1] }] },
    status: 200,
    says: /^\{"model_name":"three","model_version":"1"/,
  },
  missing("/v2/models/spare", "not loaded yet", "Request for unknown model: 'spare' is not found"),
  load("absent", "a model that is not there", 500, NOT_POLLED("absent")),
  load("broken", "a configuration that cannot be read", 500, NOT_POLLED("broken")),
  load("renamed", "a name that is not that of the folder", 500, NOT_POLLED("renamed")),
  load(
    "nobackend",
    "a backend that is not there",
    400,
    "load failed for model 'nobackend': version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library for backend 'nosuch', try specifying runtime on the model configuration.;\n",
  ),
  {
    rule: "a failed load leaves the server not ready",
    to: "/v2/health/ready",
    status: 400,
    says: "",
    type: "text/plain",
  },
  unload("nobackend", "what did not load", 200, ""),
  load("spare", "a model", 200, ""),
  ready("/v2/models/spare/ready", "a loaded model"),
  load("spare", "once more, nothing changed", 200, "", {}),
  load("newest", "two versions", 200, ""),
  { rule: "the two highest", to: "/v2/models/newest", status: 200, says: /^\{"name":"newest","versions":\["7","12"\]/ },
  load("spare", "an unknown parameter", 500, "unexpected error on creating Triton parameter", {
    parameters: { mode: "x" },
  }),
  load("spare", "a parameter that is no text", 500, "attempt to access JSON non-string as string", {
    parameters: { config: {} },
  }),
  load("spare", "a file without a configuration", 500, NOT_POLLED("spare"), {
    parameters: { "file:1/data": "AAAA" },
  }),
  load("spare", "a configuration of its own, in which names of types have any case", 200, "", {
    parameters: { config: CONFIG },
  }),
  {
    rule: "the configuration of the load holds",
    to: "/v2/models/spare",
    status: 200,
    says: /"inputs":\[\{"name":"X","datatype":"FP32","shape":\[-1,2\]\}\]/,
  },
  load("spare", "an unknown field", 500, /failed to load 'spare', failed to poll from model repository/, {
    parameters: { config: '{"backend":"identity","colour":"blue"}' },
  }),
  ready("/v2/models/spare/ready", "what was served goes on"),
  load("spare", "a plain load keeps it while no file changes", 200, ""),
  { rule: "still the configuration of the load", to: "/v2/models/spare", status: 200, says: /"shape":\[-1,2\]\}\]/ },
  unload("spare", "dependents as a text, which is ignored", 200, "", {
    parameters: { unload_dependents: "yes" },
  }),
  unload("spare", "a model", 200, "", { parameters: { unload_dependents: false } }),
  notReady("/v2/models/spare/ready", "an unloaded model"),
  missing(
    "/v2/models/spare/config",
    "its configuration",
    "Request for unknown model: 'spare' has no available versions",
  ),
  {
    rule: "its version",
    to: "/v2/models/spare/versions/1",
    status: 503,
    says: "Request for unknown model: 'spare' version 1 is not at ready state",
  },
  unload("spare", "once more", 200, ""),
  unload("absent", "what never was there", 200, ""),
];

const NOT_UNIQUE =
  /^\[\{"name":"only_a","version":"1","state":"READY"\},\{"name":"only_b","version":"1","state":"READY"\},\{"name":"twin"/;

export const DUPLICATE_ROWS: readonly HttpRow[] = [
  { rule: "the others are served", to: "POST /v2/repository/index", status: 200, says: NOT_UNIQUE },
  index("ready ones", [row("only_a", "1"), row("only_b", "1")], { ready: true }),
  ready("/v2/models/only_b/ready", "a model of the second repository"),
  notReady("/v2/models/twin/ready", "a model of both"),
  missing("/v2/models/twin", "a model of both", "Request for unknown model: 'twin' is not found"),
  {
    rule: "its statistics",
    to: "/v2/models/twin/stats",
    status: 400,
    says: "requested model 'twin' is not available",
  },
  {
    rule: "ready without it",
    to: "/v2/health/ready",
    status: 200,
    says: "",
    type: "text/plain",
  },
  { rule: "alive", to: "/v2/health/live", status: 200, says: "", type: "text/plain" },
  load("only_a", "no explicit control", 503, "explicit model load / unload is not allowed if polling is enabled"),
  unload("only_a", "no explicit control", 503, "explicit model load / unload is not allowed if polling is enabled"),
];
