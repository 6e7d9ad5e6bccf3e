/**
 * Inference requests over HTTP that Triton refuses, in the order in which it looks at them. Source: ParseJsonTritonIO and
 * ParseJsonTritonParams of Triton 2.70 (server/src/http_server.cc), InferenceRequest::Normalize of its core.
 */
import { type HttpRow, refusals, TEXT } from "./http-row.ts";

const INT = "POST /v2/models/pair/infer";
const STRINGS = "POST /v2/models/words/infer";
const HALF = "POST /v2/models/half/infer";
const NO_SOURCE =
  "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But no field is set";
const UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
const SIGNED = "attempt to access JSON non-signed-integer as signed-integer";
const NO_STRING = "attempt to access JSON non-string as string";
const NO_ARRAY = "attempt to access JSON non-array as array";
const LIMIT =
  "bytes) that exceeds the maximum allowed value of 67108864 bytes. Use --http-max-input-size to increase the limit.";
const NAMED = { name: "LEFT", datatype: "INT32", shape: [1, 3], data: [7, 8, 9] };
const OTHER = { ...NAMED, name: "RIGHT" };

/** Two inputs, the first changed. */
function request(changes: object = {}): object {
  return { inputs: [{ ...NAMED, ...changes }, OTHER] };
}

/** One input as text, where numbers matter beyond what JavaScript writes. */
function text(member: string, data = "[1]", datatype = "INT32"): string {
  return `{"inputs":[{"name":"LEFT","datatype":"${datatype}",${member},"data":${data}}]}`;
}

function withParameters(parameters: unknown): object {
  return request({ data: undefined, parameters });
}

function nested(count: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < count; i++) value = [value];
  return value;
}

export const INFER_ROWS: readonly HttpRow[] = [
  ...refusals(INT, [
    ["inputs are a number", { inputs: 7 }, 500, `Unable to parse 'inputs': ${NO_ARRAY}`],
    ["inputs are an object", { inputs: {} }, 500, `Unable to parse 'inputs': ${NO_ARRAY}`],
    ["inputs are null", { inputs: null }, 500, `Unable to parse 'inputs': ${NO_ARRAY}`],
    ["an input is a number", { inputs: [3.5] }, 400, NO_SOURCE],
    ["an input is a text", { inputs: ["LEFT"] }, 400, NO_SOURCE],
    ["an input is a list", { inputs: [[]] }, 400, NO_SOURCE],
    ["an input is null", { inputs: [null] }, 400, NO_SOURCE],
    ["an input is empty", { inputs: [{}] }, 400, NO_SOURCE],
    ["an input has a name alone", { inputs: [{ name: "LEFT" }] }, 400, NO_SOURCE],
    [
      "an input has data alone",
      { inputs: [{ data: [1] }] },
      500,
      "Unable to parse 'name': attempt to access non-existing object member 'name'",
    ],
    ["the name is a flag", request({ name: true }), 500, `Unable to parse 'name': ${NO_STRING}`],
    [
      "no datatype",
      request({ datatype: undefined }),
      500,
      "Unable to parse 'datatype': attempt to access non-existing object member 'datatype'",
    ],
    ["the datatype is a list", request({ datatype: [] }), 500, `Unable to parse 'datatype': ${NO_STRING}`],
    ["the datatype is in small letters", request({ datatype: "Int32" }), 400, "invalid datatype for input LEFT"],
    ["the shape is an object", request({ shape: {} }), 500, `Unable to parse 'shape': ${NO_ARRAY}`],
    ["a dimension is a text", request({ shape: ["1", 3] }), 500, `Unable to parse 'shape': ${UNSIGNED}`],
    ["a dimension is below 0", request({ shape: [1, -3] }), 500, `Unable to parse 'shape': ${UNSIGNED}`],
    ["a dimension has a fraction", text('"shape":[1,3.0]'), 500, `Unable to parse 'shape': ${UNSIGNED}`],
    [
      "a dimension is beyond 64 bits",
      text('"shape":[18446744073709551616]'),
      500,
      `Unable to parse 'shape': ${UNSIGNED}`,
    ],
    [
      "a dimension is -1 as 64 bits",
      text('"shape":[18446744073709551615,3]'),
      400,
      `JSON input 'LEFT' has a byte_size (18446744073709551612 ${LIMIT}`,
    ],
    [
      "a dimension is -1 as 64 bits, of one byte each",
      text('"shape":[18446744073709551615]', "[1]", "INT8"),
      400,
      `JSON input 'LEFT' has a byte_size (18446744073709551615 ${LIMIT}`,
    ],
    [
      "a dimension is below -1 as 64 bits",
      text('"shape":[9223372036854775808,2]'),
      400,
      "invalid shape for input 'LEFT': shape [-9223372036854775808,2] contains one or more invalid dimensions",
    ],
    [
      "too many elements for 64 bits",
      text('"shape":[9223372036854775807,3]'),
      400,
      "invalid shape for input 'LEFT': shape [9223372036854775807,3] causes total element count to exceed maximum size of 9223372036854775807",
    ],
    [
      "too many bytes for 64 bits",
      text('"shape":[2305843009213693952,2]', "[1]", "UINT16"),
      400,
      "byte size overflow for input 'LEFT': element count (4611686018427387904) * data type size (2) exceeds maximum allowed size (9223372036854775807)",
    ],
    [
      "more bytes than the server takes",
      text('"shape":[20000000,1]'),
      400,
      `JSON input 'LEFT' has a byte_size (80000000 ${LIMIT}`,
    ],
    [
      "an input twice",
      { inputs: [NAMED, NAMED] },
      400,
      "[request id: <id_unknown>] input 'LEFT' already exists in request",
    ],
    [
      "an input twice, with an id",
      { id: "r5", inputs: [NAMED, { ...NAMED, data: "bad" }] },
      400,
      "[request id: r5] input 'LEFT' already exists in request",
    ],
    ["data are a text", request({ data: "789" }), 500, `Unable to parse 'data': ${NO_ARRAY}`],
    ["data are null", request({ data: null }), 500, `Unable to parse 'data': ${NO_ARRAY}`],
    ["an element is a text", request({ data: [7, "8", 9] }), 500, `Unable to parse 'data': ${SIGNED}`],
    ["an element has a fraction", request({ data: [7, 8, 9.5] }), 500, `Unable to parse 'data': ${SIGNED}`],
    ["an element is null", request({ data: [null, 8, 9] }), 500, `Unable to parse 'data': ${SIGNED}`],
    [
      "an element beyond int64",
      text('"shape":[1,1]', "[9223372036854775808]"),
      500,
      `Unable to parse 'data': ${SIGNED}`,
    ],
    [
      "a wrong element before one too many",
      request({ data: [7, 8, "9", 10] }),
      500,
      `Unable to parse 'data': ${SIGNED}`,
    ],
    [
      "one too many before a wrong element",
      request({ data: [7, 8, 9, "x"] }),
      500,
      "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ],
    [
      "an element too few",
      request({ data: [7, [8]] }),
      500,
      "Failed to parse 'data' field: shape does not match true shape",
    ],
    [
      "an element too many",
      request({
        data: [
          [7, 8],
          [9, 10],
        ],
      }),
      500,
      "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ],
    [
      "data nested a hundred times",
      request({ data: nested(100) }),
      400,
      "Unable to parse 'data': JSON nesting depth exceeds maximum allowed limit (100)",
    ],
    [
      "data and a binary size",
      request({ parameters: { binary_data_size: 12 } }),
      400,
      NO_SOURCE.replace("no field is set", "set 'data' 'binary_data_size'"),
    ],
    [
      "data and a region",
      request({ parameters: { shared_memory_region: "r" } }),
      400,
      NO_SOURCE.replace("no field is set", "set 'data' 'shared_memory_region'"),
    ],
    [
      "a binary size and a region",
      withParameters({ binary_data_size: 12, shared_memory_region: "r" }),
      400,
      NO_SOURCE.replace("no field is set", "set 'binary_data_size' 'shared_memory_region'"),
    ],
    ["parameters of an input are a number", withParameters(4), 400, NO_SOURCE],
    [
      "the binary size is a text",
      withParameters({ binary_data_size: "12" }),
      500,
      `Unable to parse 'binary_data_size': ${UNSIGNED}`,
    ],
    [
      "a binary size without bytes",
      withParameters({ binary_data_size: 12 }),
      400,
      "unexpected size for input 'LEFT', expecting 12 additional bytes for model 'pair'",
    ],
    [
      "the region is a number",
      withParameters({ shared_memory_region: 4 }),
      500,
      `Unable to parse 'shared_memory_region': ${NO_STRING}`,
    ],
    [
      "the offset is below 0",
      withParameters({ shared_memory_region: "r", shared_memory_offset: -4 }),
      500,
      `Unable to parse 'shared_memory_offset': ${UNSIGNED}`,
    ],
    [
      "an offset of the wrong type beside data",
      request({ parameters: { shared_memory_offset: "4" } }),
      500,
      `Unable to parse 'shared_memory_offset': ${UNSIGNED}`,
    ],
    [
      "a size of the wrong type beside data",
      request({ parameters: { shared_memory_byte_size: 1.5 } }),
      500,
      `Unable to parse 'shared_memory_byte_size': ${UNSIGNED}`,
    ],
    [
      "no inputs",
      { id: "e", inputs: [] },
      400,
      "[request id: e] expected 2 inputs but got 0 inputs for model 'pair'. Got input(s) [], but missing required input(s) ['LEFT','RIGHT']. Please provide all required input(s).",
    ],
    [
      "batches of two sizes",
      { inputs: [NAMED, { ...OTHER, shape: [2, 3], data: [1, 2, 3, 4, 5, 6] }] },
      400,
      "[request id: <id_unknown>] input 'LEFT' batch size does not match other inputs for 'pair'",
    ],
    [
      "a batch that is too large",
      {
        inputs: [
          { ...NAMED, shape: [5, 1], data: [1, 2, 3, 4, 5] },
          { ...OTHER, shape: [5, 1], data: [1, 2, 3, 4, 5] },
        ],
      },
      400,
      "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'pair'",
    ],
    [
      "another datatype",
      { inputs: [NAMED, { ...OTHER, datatype: "FP32" }] },
      400,
      "[request id: <id_unknown>] inference input 'RIGHT' data-type is 'FP32', but model 'pair' expects 'INT32'",
    ],
    [
      "an empty shape",
      request({ shape: [], data: [] }),
      400,
      "[request id: <id_unknown>] input 'LEFT' has no shape but model requires batch dimension for 'pair'",
    ],
  ]),
  ...refusals(STRINGS, [
    [
      "a number among strings",
      { inputs: [{ name: "W", datatype: "BYTES", shape: [2], data: ["a", 4] }] },
      500,
      `Unable to parse JSON bytes array: ${NO_STRING}`,
    ],
    [
      "a string too few",
      { inputs: [{ name: "W", datatype: "BYTES", shape: [3], data: ["a", ["b"]] }] },
      400,
      "[request id: <id_unknown>] expected 3 string elements for inference input 'W' for model 'words', got 2",
    ],
    [
      "a string too many",
      { inputs: [{ name: "W", datatype: "BYTES", shape: [1], data: ["a", "b"] }] },
      400,
      "[request id: <id_unknown>] unexpected number of string elements 2 for inference input 'W' for model 'words', expecting 1",
    ],
    [
      "strings nested a hundred times",
      { inputs: [{ name: "W", datatype: "BYTES", shape: [1], data: nested(100) }] },
      400,
      "JSON nesting depth exceeds maximum allowed limit (100)",
    ],
  ]),
  ...refusals(HALF, [
    [
      "FP16 in JSON",
      { inputs: [{ name: "H", datatype: "FP16", shape: [2], data: [1, 2] }] },
      400,
      "receiving FP16 data via JSON is not supported. Please use the binary data format for input H",
    ],
    [
      "FP16 in JSON, with data of a wrong type",
      { inputs: [{ name: "H", datatype: "FP16", shape: [2], data: 1 }] },
      500,
      `Unable to parse 'data': ${NO_ARRAY}`,
    ],
  ]),
  ...refusals(
    "POST /v2/models/nothing/infer",
    [["an unknown model", "{", 404, "Request for unknown model: 'nothing' is not found"]],
    TEXT,
  ),
  ...refusals(
    "POST /v2/models/pair/versions/0/infer",
    [["version 0", request(), 404, "Request for unknown model: 'pair' version 0 is not found"]],
    TEXT,
  ),
  ...refusals(
    "POST /v2/models/pair/versions/00/infer",
    [["version 00", request(), 404, "Request for unknown model: 'pair' version 0 is not found"]],
    TEXT,
  ),
];
