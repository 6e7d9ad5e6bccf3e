/** Rules of classification, ensembles, streams, sequences, generating and the metrics port. */
import { type HttpRow, TEXT } from "./http-row.ts";

function echo(datatype: string, dims: string, more: string): string {
  return `backend: "identity" input [ { name: "X" data_type: ${datatype} dims: [ ${dims} ] } ]
    output [ { name: "Y" data_type: ${datatype} dims: [ ${dims} ] ${more.startsWith("label") ? more : ""} } ]
    instance_group [ { kind: KIND_CPU } ] ${more.startsWith("label") ? "" : more}`;
}

const CORRID = (type: string): string =>
  `max_batch_size: 1 sequence_batching { control_input [ { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: ${type} } ] } ] }`;

/** Beside the input of the id, the identity backend goes by the names of its tensors. */
const renamed = (config: string): string => config.replace('"X"', '"INPUT0"').replace('"Y"', '"OUTPUT0"');

export const PIPELINE_MODELS: Readonly<Record<string, string>> = {
  "scores/config.pbtxt": `max_batch_size: 2 ${echo("TYPE_FP32", "4", 'label_filename: "names.txt"')}`,
  "scores/names.txt": "ant\nbee\ncat\n",
  "counts/config.pbtxt": echo("TYPE_INT32", "4", ""),
  "half/config.pbtxt": echo("TYPE_FP16", "-1", ""),
  "flags/config.pbtxt": echo("TYPE_BOOL", "-1", ""),
  "big/config.pbtxt": echo("TYPE_UINT64", "-1", ""),
  "chain/config.pbtxt": `platform: "ensemble" max_batch_size: 2
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ] output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
    ensemble_scheduling { step [ { model_name: "scores" model_version: -1
      input_map { key: "X" value: "IN" } output_map { key: "Y" value: "OUT" } } ] }`,
  "many/config.pbtxt": `backend: "repeat" model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] },
      { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
  "numbered/config.pbtxt": renamed(echo("TYPE_INT32", "1", CORRID("TYPE_UINT64"))),
  "lettered/config.pbtxt": renamed(echo("TYPE_INT32", "1", CORRID("TYPE_STRING"))),
};

const classes = (model: string, datatype: string, data: readonly number[], k: unknown, shape: readonly number[]) => ({
  to: `POST /v2/models/${model}/infer`,
  body: {
    inputs: [{ name: "X", datatype, shape, data }],
    outputs: [{ name: "Y", parameters: { classification: k } }],
  },
});

function sorted(
  rule: string,
  data: readonly number[],
  k: number,
  shape: readonly number[],
  says: readonly string[],
): HttpRow {
  const [, ...rest] = shape;
  const out = [shape[0], rest.length === 0 ? 0 : says.length / (shape[0] ?? 1)].join(",");
  const text = says.map((entry) => `"${entry}"`).join(",");
  return {
    rule,
    ...classes("scores", "FP32", data, k, shape),
    status: 200,
    says: `{"model_name":"scores","model_version":"1","outputs":[{"name":"Y","datatype":"BYTES","shape":[${out}],"data":[${text}]}]}`,
  };
}

const NO_CLASSES = (type: string): string => `class result not available for output due to unsupported type '${type}'`;

const CLASSIFICATION: readonly HttpRow[] = [
  sorted("the best two", [0.25, 0.5, 0.125, 0], 2, [1, 4], ["0.500000:1:bee", "0.250000:0:ant"]),
  sorted("a class without a label", [0, 1, 2, 3], 1, [1, 4], ["3.000000:3"]),
  sorted(
    "more than there are",
    [4, 3, 2, 1],
    9,
    [1, 4],
    ["4.000000:0:ant", "3.000000:1:bee", "2.000000:2:cat", "1.000000:3"],
  ),
  sorted("each of a batch", [1, 2, 0, 0, 0, 0, 7, 1], 1, [2, 4], ["2.000000:1:bee", "7.000000:2:cat"]),
  sorted("below zero", [-1, -2.5, -3, -4], 2, [1, 4], ["-1.000000:0:ant", "-2.500000:1:bee"]),
  sorted("large values", [1e20, 1, 2, 3], 1, [1, 4], ["100000002004087734272.000000:0:ant"]),
  sorted("small values", [0.0000004, 0, 0, 0], 1, [1, 4], ["0.000000:0:ant"]),
  {
    rule: "integers",
    ...classes("counts", "INT32", [5, -7, 9, 0], 3, [4]),
    status: 200,
    says: '{"model_name":"counts","model_version":"1","outputs":[{"name":"Y","datatype":"BYTES","shape":[3],"data":["9:2","5:0","0:3"]}]}',
  },
  {
    rule: "no classes is no classification",
    ...classes("counts", "INT32", [5, -7, 9, 0], 0, [4]),
    status: 200,
    says: '{"model_name":"counts","model_version":"1","outputs":[{"name":"Y","datatype":"INT32","shape":[4],"data":[5,-7,9,0]}]}',
  },
  { rule: "booleans", ...classes("flags", "BOOL", [], 1, [0]), status: 400, says: NO_CLASSES("BOOL"), type: TEXT },
];

const TO_CHAIN = "POST /v2/models/chain/infer";
const inChain = (shape: readonly number[], data: readonly number[], datatype = "FP32", name = "IN") => ({
  to: TO_CHAIN,
  body: { id: "e1", inputs: [{ name, datatype, shape, data }] },
});

const ENSEMBLES: readonly HttpRow[] = [
  {
    rule: "parameters of sequences in the answer",
    ...inChain([1, 4], [1, 2, 3, 4]),
    status: 200,
    says: '{"id":"e1","model_name":"chain","model_version":"1","parameters":{"sequence_id":0,"sequence_start":false,"sequence_end":false},"outputs":[{"name":"OUT","datatype":"FP32","shape":[1,4],"data":[1.0,2.0,3.0,4.0]}]}',
  },
  {
    rule: "a batch that is too large",
    ...inChain([3, 4], new Array<number>(12).fill(0)),
    status: 400,
    says: "[request id: e1] inference request batch-size must be <= 2 for 'chain'",
  },
  {
    rule: "another datatype",
    ...inChain([1, 4], [1, 2, 3, 4], "INT32"),
    status: 400,
    says: "[request id: e1] inference input 'IN' data-type is 'INT32', but model 'chain' expects 'FP32'",
  },
  {
    rule: "metadata",
    to: "/v2/models/chain",
    status: 200,
    says: /^\{"name":"chain","versions":\["1"\],"platform":"ensemble"/,
  },
  {
    rule: "classes by the labels of its step",
    to: TO_CHAIN,
    body: {
      inputs: [{ name: "IN", datatype: "FP32", shape: [1, 4], data: [0, 5, 0, 0] }],
      outputs: [{ name: "OUT", parameters: { classification: 1 } }],
    },
    status: 200,
    says: /"data":\["5\.000000:1:bee"\]/,
  },
];

const ONE_EXPECTED =
  "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses";
const event = (index: number, value: number): string =>
  `data: {"IDX":${index},"OUT":${value},"model_name":"many","model_version":"1"}\n\n`;
const SSE = "text/event-stream; charset=utf-8";

const STREAMS: readonly HttpRow[] = [
  {
    rule: "a decoupled model",
    to: "POST /v2/models/many/infer",
    body: { inputs: [] },
    status: 501,
    says: "HTTP end point doesn't support models with decoupled transaction policy",
    type: TEXT,
  },
  {
    rule: "one response",
    to: "POST /v2/models/many/generate",
    body: { IN: [7], DELAY: [0], WAIT: 0 },
    status: 200,
    says: '{"IDX":0,"OUT":7,"model_name":"many","model_version":"1"}',
  },
  {
    rule: "two responses",
    to: "POST /v2/models/many/generate",
    body: { IN: [7, 8], DELAY: [0, 0], WAIT: [0] },
    status: 200,
    says: `{"error":"${ONE_EXPECTED}"}`,
  },
  {
    rule: "an event for each",
    to: "POST /v2/models/many/generate_stream",
    body: { IN: [7, 8, 9], DELAY: [0, 0, 0], WAIT: 0 },
    status: 200,
    says: event(0, 7) + event(1, 8) + event(2, 9),
    type: SSE,
  },
  {
    rule: "an id in each",
    to: "POST /v2/models/many/generate_stream",
    body: { id: "s", IN: 4, DELAY: 0, WAIT: 0 },
    status: 200,
    says: 'data: {"IDX":0,"OUT":4,"id":"s","model_name":"many","model_version":"1"}\n\n',
    type: SSE,
  },
  {
    rule: "an element of a wrong type",
    to: "POST /v2/models/many/generate_stream",
    body: { IN: ["a"], DELAY: [0], WAIT: 0 },
    status: 500,
    says: /attempt to access JSON non-signed-integer as signed-integer/,
  },
  {
    rule: "an unknown model",
    to: "POST /v2/models/none/generate_stream",
    body: {},
    status: 404,
    says: "Request for unknown model: 'none' is not found",
  },
  {
    rule: "a batch of four from the outer list",
    to: "POST /v2/models/counts/generate",
    body: { X: [1, 2, 3, 4] },
    status: 200,
    says: /"Y":\[1,2,3,4\]/,
  },
  {
    rule: "a shape that does not fit",
    to: "POST /v2/models/scores/generate",
    body: { X: [1, 2, 3] },
    status: 400,
    says: "The schema can not convert input 'X' to tensor with proper shape",
  },
  {
    rule: "two rows from eight elements",
    to: "POST /v2/models/scores/generate",
    body: { X: [1, 2, 3, 4, 5, 6, 7, 8] },
    status: 200,
    says: /"Y":\[1\.0,2\.0,3\.0,4\.0,5\.0,6\.0,7\.0,8\.0\]/,
  },
  {
    rule: "no body",
    to: "POST /v2/models/counts/generate",
    status: 500,
    says: "failed to parse the request JSON buffer: The document is empty. at 0",
  },
  {
    rule: "integers of 64 bits",
    to: "POST /v2/models/big/generate",
    body: '{"X":18446744073709551615}',
    status: 200,
    says: /"Y":18446744073709551615/,
  },
];

function inSequence(
  model: string,
  parameters: object,
  rule: string,
  status: number,
  says: HttpRow["says"],
  id?: string,
): HttpRow {
  const body = {
    ...(id === undefined ? {} : { id }),
    parameters,
    inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1, 1], data: [3] }],
  };
  return { rule, to: `POST /v2/models/${model}/infer`, body, status, says };
}

const UNKNOWN_ID = "[request id: <id_unknown>] ";
const NO_START = "must specify the START flag on the first request of the sequence";
const NO_ID = "must specify a non-zero or non-empty correlation ID";

const SEQUENCES: readonly HttpRow[] = [
  inSequence("numbered", {}, "no id", 400, `inference request to model 'numbered' ${NO_ID}`),
  inSequence("numbered", { sequence_id: 0 }, "id 0", 400, `inference request to model 'numbered' ${NO_ID}`, "z"),
  inSequence("lettered", { sequence_id: "" }, "an empty id", 400, `inference request to model 'lettered' ${NO_ID}`),
  inSequence(
    "numbered",
    { sequence_id: 31 },
    "no start",
    400,
    `inference request for sequence 31 to model 'numbered' ${NO_START}`,
  ),
  inSequence(
    "lettered",
    { sequence_id: "night", sequence_end: true },
    "the end without a start",
    400,
    `inference request for sequence night to model 'lettered' ${NO_START}`,
  ),
  inSequence(
    "numbered",
    { sequence_id: "night", sequence_start: true },
    "a text where a number is wanted",
    400,
    `${UNKNOWN_ID}sequence batching control 'ID' data-type is 'BYTES', but model 'numbered' expects 'UINT64'`,
  ),
  inSequence("numbered", { sequence_id: 31, sequence_start: true }, "the first", 200, /"data":\[3\]/),
  inSequence("numbered", { sequence_id: 31 }, "the second", 200, /"data":\[3\]/),
  inSequence("numbered", { sequence_id: 31, sequence_end: true }, "the last", 200, /"data":\[3\]/),
  inSequence(
    "numbered",
    { sequence_id: 31 },
    "one behind the last",
    400,
    `inference request for sequence 31 to model 'numbered' ${NO_START}`,
  ),
  inSequence(
    "lettered",
    { sequence_id: "night", sequence_start: true, sequence_end: true },
    "one alone",
    200,
    /"data":\[3\]/,
  ),
];

const METRICS: readonly HttpRow[] = [
  {
    rule: "the page",
    to: "/metrics",
    at: "metrics",
    status: 200,
    says: /^# HELP nv_/,
    type: "text/plain; charset=utf-8",
  },
  {
    rule: "with a slash",
    to: "/metrics/",
    at: "metrics",
    status: 200,
    says: /^# HELP nv_/,
    type: "text/plain; charset=utf-8",
  },
  { rule: "another path", to: "/v2", at: "metrics", status: 200, says: "", isTypeFree: true },
  { rule: "GET only", to: "POST /metrics", at: "metrics", status: 405, says: "Method Not Allowed", type: TEXT },
  { rule: "not on this port", to: "/metrics", status: 404, says: "Not Found", type: TEXT },
];

export const PIPELINE_ROWS: readonly HttpRow[] = [
  ...CLASSIFICATION,
  ...ENSEMBLES,
  ...STREAMS,
  ...SEQUENCES,
  ...METRICS,
];
