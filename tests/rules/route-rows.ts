/**
 * Paths, methods and settings of the HTTP port. Source: the routes and handlers of Triton 2.70 (server/src/http_server.cc, common.cc,
 * triton.h of its core), on a server with `--model-control-mode=explicit` and without `--allow-client-shm`.
 */
import { type HttpRow, refusals, TEXT } from "./http-row.ts";

const DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
const BOOLEAN = "attempt to access JSON non-boolean as boolean";
const UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
const NO_STRING = "attempt to access JSON non-string as string";

const NOT_FOUND = [
  "/",
  "/v2/",
  "/v2/health",
  "/v2/health/live/",
  "/v2/health/Ready",
  "/V2",
  "/v2/models",
  "/v2/models/",
  "/v2/models//ready",
  "/v2/models/pair/nope",
  "/v2/models/pair/versions/x",
  "/v2/models/pair/versions/-1",
  "/v2/models/pair/versions/1/trace/setting",
  "/v2/logging/",
  "/v2/systemsharedmemory/region//status",
  "/v2/repository/models/pair",
];
const POST_ONLY = [
  "/v2/repository/index",
  "/v2/repository/models/pair/load",
  "/v2/systemsharedmemory/region/r/register",
  "/v2/cudasharedmemory/unregister",
  "/v2/models/pair/generate",
];
const GET_ONLY = [
  "/v2",
  "/v2/models/pair",
  "/v2/models/pair/config",
  "/v2/models/pair/stats",
  "/v2/models/stats",
  "/v2/systemsharedmemory/status",
];

export const ROUTE_ROWS: readonly HttpRow[] = [
  ...NOT_FOUND.map((to) => ({ rule: "no such path", to, status: 404, type: TEXT, says: "Not Found" })),
  ...POST_ONLY.map((to) => ({ rule: "POST only", to, status: 405, says: "Method Not Allowed" })),
  ...GET_ONLY.map((to) => ({
    rule: "GET only",
    to: `POST ${to}`,
    body: "{}",
    status: 405,
    says: "Method Not Allowed",
  })),
  {
    rule: "POST only, without a JSON type",
    to: "/v2/models/pair/infer",
    status: 405,
    type: TEXT,
    says: "Method Not Allowed",
  },
  {
    rule: "GET only, without a JSON type",
    to: "POST /v2/health/live",
    status: 405,
    type: TEXT,
    says: "Method Not Allowed",
  },
  {
    rule: "version 0 is not ready",
    to: "/v2/models/pair/versions/0/ready",
    status: 400,
    type: TEXT,
    says: "Model version not ready",
  },
  {
    rule: "an unknown model is not ready",
    to: "/v2/models/nothing/ready",
    status: 400,
    type: TEXT,
    says: "Model version not ready",
  },
  {
    rule: "a version beyond 64 bits",
    to: "/v2/models/pair/versions/9223372036854775808/ready",
    status: 400,
    type: TEXT,
    says: "failed to get model version from specified version string '9223372036854775808' (details: stol), version should be an integral value > 0",
  },
  {
    rule: "version 0 has no metadata",
    to: "/v2/models/pair/versions/0",
    status: 404,
    says: "Request for unknown model: 'pair' version 0 is not found",
  },
  {
    rule: "version 0 has no configuration",
    to: "/v2/models/pair/versions/000/config",
    status: 404,
    says: "Request for unknown model: 'pair' version 0 is not found",
  },
  {
    rule: "version 0 has no statistics",
    to: "/v2/models/pair/versions/0/stats",
    status: 400,
    says: "requested model version is not available for model 'pair'",
  },
  {
    rule: "an unknown model has no statistics",
    to: "/v2/models/nothing/stats",
    status: 400,
    says: "requested model 'nothing' is not available",
  },
  {
    rule: "an escaped name is another name",
    to: "/v2/models/p%61ir",
    status: 404,
    says: "Request for unknown model: 'p%61ir' is not found",
  },
  {
    rule: "an unknown region",
    to: "/v2/systemsharedmemory/region/r/status",
    status: 404,
    says: "Unable to find system shared memory region: 'r'",
  },
  {
    rule: "an unknown CUDA region",
    to: "/v2/cudasharedmemory/region/r/status",
    status: 404,
    says: "Unable to find cuda shared memory region: 'r'",
  },
  {
    rule: "regions without a name, where none are allowed",
    to: "POST /v2/systemsharedmemory/register",
    body: "{}",
    status: 501,
    says: DISABLED,
  },
  {
    rule: "CUDA regions without a name, where none are allowed",
    to: "POST /v2/cudasharedmemory/register",
    body: "{}",
    status: 501,
    says: DISABLED,
  },
  {
    rule: "unregistering, where none are allowed",
    to: "POST /v2/cudasharedmemory/region/r/unregister",
    status: 501,
    says: DISABLED,
  },
  {
    rule: "trace settings of an unknown model",
    to: "POST /v2/models/nothing/trace/setting",
    body: "{",
    status: 400,
    says: "Request for unknown model : nothing",
  },
  ...refusals("POST /v2/logging", [
    ["a flag as a number", { log_info: 0 }, 500, BOOLEAN],
    ["a flag as a text", { log_error: "false" }, 500, BOOLEAN],
    ["a level below 0", { log_verbose_level: -2 }, 500, UNSIGNED],
    ["a level with a fraction", { log_verbose_level: 0.5 }, 500, UNSIGNED],
    ["a format as a number", { log_format: 8601 }, 500, NO_STRING],
    ["an unknown format", { log_format: "iso" }, 503, "invalid argument for --log_format, got: iso"],
    ["a file", { log_file: "" }, 501, "log file location can not be updated through network protocol"],
    [
      "values that are null",
      { log_info: null, log_format: null, log_verbose_level: null, log_file: null },
      200,
      /"log_info":true.*"log_verbose_level":0,"log_format":"default"/,
    ],
    ["a level of 2^32", '{"log_verbose_level":4294967296}', 200, /"log_verbose_level":0,/],
    ["a list", "[]", 200, /"log_info":true/],
  ]),
  ...refusals("POST /v2/trace/setting", [
    ["a file", { trace_file: null }, 501, "trace file location can not be updated through network protocol"],
    ["a level as a text", { trace_level: "OFF" }, 500, "attempt to access JSON non-array as array"],
    ["a level as a number", { trace_level: [0] }, 500, NO_STRING],
    [
      "OFF beside another level",
      { trace_level: ["TENSORS", "OFF"] },
      400,
      "Expect only one trace level 'OFF' is specified",
    ],
    ["a rate as a number", { trace_rate: 10 }, 500, NO_STRING],
    ["a rate in words", { trace_rate: "ten" }, 400, "Unable to parse 'trace_rate', got: ten"],
    [
      "a rate beyond 32 bits",
      { trace_rate: "4294967296" },
      400,
      "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 4294967296",
    ],
    ["a count below -1", { trace_count: "-5" }, 400, "Unable to parse 'trace_count'. Expecting value >= -1, got:-5"],
    ["a frequency in words", { log_frequency: "often" }, 400, "Unable to parse 'log_frequency', got: often"],
  ]),
  ...refusals("POST /v2/repository/index", [
    ["a flag as a number", { ready: 1 }, 400, "Invalid value for 'ready': expected a boolean"],
    ["a flag that is null", { ready: null }, 400, "Invalid value for 'ready': expected a boolean"],
    ["broken JSON", "{", 500, "failed to parse the request JSON buffer: Missing a name for object member. at 1"],
  ]),
  ...refusals("POST /v2/repository/models/nothing/load", [
    ["parameters as a number", { parameters: 1 }, 500, "attempt to get members for non-object"],
    ["parameters as a list", { parameters: [] }, 500, "attempt to get members for non-object"],
    [
      "an unknown parameter",
      { parameters: { configuration: "" } },
      500,
      "unexpected error on creating Triton parameter",
    ],
    ["a configuration as a number", { parameters: { config: 1 } }, 500, NO_STRING],
    ["a model that no repository has", {}, 500, "failed to load 'nothing', failed to poll from model repository"],
  ]),
  ...refusals("POST /v2/repository/other/models/pair/load", [
    ["a repository", "{}", 501, "'repository_name' specification is not supported"],
  ]),
  {
    rule: "an unknown model is unloaded",
    to: "POST /v2/repository/models/nothing/unload",
    body: { parameters: { unload_dependents: "yes" } },
    status: 200,
    says: "",
  },
  ...refusals("POST /v2/models/words/generate", [
    ["an id as a number counts first", '{"bad":null,"id":5}', 500, `Unable to parse 'id': ${NO_STRING}`],
    ["a text that is no object", '"W"', 500, "attempt to get members for non-object"],
    ["an input twice", '{"id":"g","W":"a","W":"b"}', 400, "[request id: g] input 'W' already exists in request"],
    [
      "an input twice, once among parameters",
      '{"W":"a","parameters":{"W":"b"}}',
      400,
      "Converting keyword: 'parameters': [request id: <id_unknown>] input 'W' already exists in request",
    ],
    [
      "a parameter as a list",
      '{"W":"a","mode":[]}',
      400,
      "parameter 'mode' has invalid type. It should be either 'int', 'bool', or 'string'.",
    ],
    [
      "parameters as a text",
      '{"W":"a","parameters":"x"}',
      500,
      "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
    ],
    ["a number for a string", '{"W":7}', 500, `Unable to parse JSON bytes array: ${NO_STRING}`],
    [
      "an encoded body",
      "{}",
      400,
      "Unsupported content-encoding, only 'identity' is supported.",
      { "Content-Encoding": "gzip" },
    ],
  ]),
  ...refusals("POST /v2/models/pair/generate", [
    [
      "a shape that does not fit, of a wrong type",
      '{"LEFT":"abc","RIGHT":[1,2]}',
      400,
      "The schema can not convert input 'LEFT' to tensor with proper shape",
    ],
    [
      "an element of a wrong type",
      '{"LEFT":[1,"b",3]}',
      500,
      "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
    ],
    [
      "nested lists with too many",
      '{"LEFT":[[1,2,3],4,5]}',
      500,
      "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ],
    [
      "nested lists with too few",
      '{"LEFT":[[],4,5]}',
      500,
      "Failed to parse 'data' field: shape does not match true shape",
    ],
  ]),
];
