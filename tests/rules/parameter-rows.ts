/**
 * Outputs, ids and parameters of inference requests over HTTP that Triton refuses. Source: ParseJsonTritonIO, ValidateOutputParameter and
 * ParseJsonTritonParams of Triton 2.70 (server/src/http_server.cc).
 */
import { type HttpRow, refusals } from "./http-row.ts";

const UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
const NO_STRING = "attempt to access JSON non-string as string";
const NO_BOOLEAN = "attempt to access JSON non-boolean as boolean";
const NO_ARRAY = "attempt to access JSON non-array as array";
const INPUT = { name: "LEFT", datatype: "INT32", shape: [1, 3], data: [7, 8, 9] };

function request(more: object): object {
  return { ...more, inputs: [INPUT, { ...INPUT, name: "RIGHT" }] };
}

export const PARAMETER_ROWS: readonly HttpRow[] = refusals("POST /v2/models/pair/infer", [
  ["outputs are an object", request({ outputs: {} }), 500, `Unable to parse 'outputs': ${NO_ARRAY}`],
  [
    "an output is a number",
    request({ outputs: [1] }),
    500,
    "Unable to parse 'name': attempt to access non-existing object member 'name'",
  ],
  [
    "an output twice",
    request({ id: "o", outputs: [{ name: "SUM" }, { name: "SUM" }] }),
    400,
    "[request id: o] output 'SUM' already exists in request",
  ],
  [
    "an output that is none",
    request({ outputs: [{ name: "TOTAL" }] }),
    400,
    "unexpected inference output 'TOTAL' for model 'pair'",
  ],
  [
    "classes as a text",
    request({ outputs: [{ name: "SUM", parameters: { classification: "2" } }] }),
    500,
    `Unable to set 'classification': ${UNSIGNED}`,
  ],
  [
    "binary data as a number",
    request({ outputs: [{ name: "SUM", parameters: { binary_data: 0 } }] }),
    500,
    `Unable to parse 'binary_data': ${NO_BOOLEAN}`,
  ],
  [
    "a region and binary data of a wrong type",
    request({ outputs: [{ name: "SUM", parameters: { shared_memory_region: "r", binary_data: 0 } }] }),
    500,
    `Unable to set 'binary_data': ${NO_BOOLEAN}`,
  ],
  [
    "a region and classes, without a name",
    request({ outputs: [{ parameters: { shared_memory_region: "r", classification: 1 } }] }),
    400,
    "Output can't set both 'shared_memory_region' and 'classification'",
  ],
  [
    "a region and binary data",
    request({ outputs: [{ name: "SUM", parameters: { shared_memory_region: "r", binary_data: true } }] }),
    400,
    "Output can't set both 'shared_memory_region' and 'binary_data'",
  ],
  [
    "a size of the wrong type without a region",
    request({ outputs: [{ name: "SUM", parameters: { shared_memory_byte_size: "9" } }] }),
    500,
    `Unable to parse 'shared_memory_byte_size': ${UNSIGNED}`,
  ],
  ["the id is a number", request({ id: 12 }), 500, `Unable to parse 'id': ${NO_STRING}`],
  [
    "parameters are a list",
    request({ parameters: [] }),
    500,
    "failed to get request params.: attempt to get members for non-object",
  ],
  [
    "a parameter is an object",
    request({ parameters: { mode: {} } }),
    400,
    "parameter 'mode' has invalid type. It should be either 'int', 'bool', or 'string'.",
  ],
  [
    "a parameter is null",
    request({ parameters: { mode: null } }),
    400,
    "parameter 'mode' has invalid type. It should be either 'int', 'bool', or 'string'.",
  ],
  [
    "a reserved parameter",
    request({ parameters: { triton_mode: 1 } }),
    400,
    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
  ],
  [
    "a sequence id below 0",
    request({ parameters: { sequence_id: -9 } }),
    500,
    `Unable to parse 'sequence_id': ${NO_STRING}`,
  ],
  [
    "a sequence id of 129 bytes",
    request({ parameters: { sequence_id: `${"é".repeat(64)}x` } }),
    501,
    "string correlation ID cannot be longer than 128 characters",
  ],
  [
    "a sequence flag as a number",
    request({ parameters: { sequence_end: 1 } }),
    500,
    `Unable to parse 'sequence_end': ${NO_BOOLEAN}`,
  ],
  ["a priority below 0", request({ parameters: { priority: -2 } }), 500, `Unable to parse 'priority': ${UNSIGNED}`],
  ["a timeout as a text", request({ parameters: { timeout: "5" } }), 500, `Unable to parse 'timeout': ${UNSIGNED}`],
  [
    "binary output as a text",
    request({ parameters: { binary_data_output: "true" } }),
    500,
    `Unable to parse 'binary_data_output': ${NO_BOOLEAN}`,
  ],
]);
