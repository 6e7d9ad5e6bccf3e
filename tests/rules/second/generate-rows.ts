/** From flat JSON to tensors and back. Source: GenerateRequestClass and MappingSchema of Triton 2.70 (server/src/http_server.cc). */
import type { HttpRow } from "../http-row.ts";
import { pathOf } from "./value-rows.ts";

const NO_TYPE = (name: string): string =>
  `parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`;

function ok(rule: string, to: string, body: string, says: HttpRow["says"]): HttpRow {
  return { rule, to, body, status: 200, says };
}

const GRID = "POST /v2/models/grid/generate";
const INT = pathOf("INT32", "generate");
const WORDS = pathOf("BYTES", "generate");

export const GENERATE_ROWS: readonly HttpRow[] = [
  ok("a scalar is one element", INT, '{"X":7}', /^\{"Y":7,"model_name":"echo_INT32","model_version":"1",/),
  ok("a list is a flat list", INT, '{"X":[7,8]}', /^\{"Y":\[7,8\],"model_name":"echo_INT32","model_version":"1",/),
  ok("a list of one is a scalar", INT, '{"X":[7]}', /^\{"Y":7,/),
  ok(
    "the id is in its place",
    INT,
    '{"X":7,"id":"g"}',
    /^\{"Y":7,"id":"g","model_name":"echo_INT32","model_version":"1",/,
  ),
  ok("other members are parameters", INT, '{"X":7,"a":"t","b":true,"c":-1,"d":0.5}', /^\{"Y":7,/),
  ok("no member is special", INT, '{"X":7,"priority":"high","timeout":"never","sequence_start":5}', /^\{"Y":7,/),
  ok("tensors among the parameters", INT, '{"parameters":{"X":5,"other":1}}', /^\{"Y":5,/),
  ok("a text", WORDS, '{"X":"one two"}', /^\{"Y":"one two",/),
  ok("texts", WORDS, '{"X":["é","\\u0022"]}', /^\{"Y":\["[^"]*","\\""\],/),
  ok("the last variable dimension takes all", GRID, '{"X":[1,2,3,4,5,6]}', /^\{"Y":\[1,2,3,4,5,6\],/),
  ok("a flag as a parameter", INT, '{"X":7,"flag":false}', /^\{"Y":7,/),
  {
    rule: "no whole rows",
    to: GRID,
    body: '{"X":[1,2,3]}',
    status: 400,
    says: "The schema can not convert input 'X' to tensor with proper shape",
  },
  { rule: "an object as a parameter", to: INT, body: '{"X":7,"o":{}}', status: 400, says: NO_TYPE("o") },
  { rule: "a list as a parameter", to: INT, body: '{"X":7,"l":[1]}', status: 400, says: NO_TYPE("l") },
  { rule: "null as a parameter", to: INT, body: '{"X":7,"n":null}', status: 400, says: NO_TYPE("n") },
  {
    rule: "parameters that are no object",
    to: INT,
    body: '{"X":7,"parameters":[1]}',
    status: 500,
    says: "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
  },
  {
    rule: "a tensor called parameters",
    to: "POST /v2/models/clash/generate",
    body: '{"parameters":{"x":1}}',
    status: 400,
    says: "Keyword 'parameters' for nested schema also given as input tensor name",
  },
  {
    rule: "no input",
    to: INT,
    body: "{}",
    status: 400,
    says: "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'echo_INT32'. Got input(s) [], but missing required input(s) ['X']. Please provide all required input(s).",
  },
  {
    rule: "a wrong element",
    to: INT,
    body: '{"X":[7,"8"]}',
    status: 500,
    says: /attempt to access JSON non-signed-integer as signed-integer$/,
  },
  {
    rule: "an encoded body",
    to: INT,
    body: '{"X":7}',
    headers: { "Content-Encoding": "gzip" },
    status: 400,
    says: "Unsupported content-encoding, only 'identity' is supported.",
  },
  {
    rule: "identity is an encoding",
    to: INT,
    body: '{"X":7}',
    headers: { "Content-Encoding": "identity" },
    status: 200,
    says: /^\{"Y":7,/,
  },
  {
    rule: "a stream of one",
    to: pathOf("INT32", "generate_stream"),
    body: '{"X":7}',
    status: 200,
    says: /^data: \{"Y":7,"model_name":"echo_INT32","model_version":"1".*\}\n\n$/,
    type: "text/event-stream; charset=utf-8",
  },
  {
    rule: "by version",
    to: "POST /v2/models/echo_INT32/versions/1/generate",
    body: '{"X":9}',
    status: 200,
    says: /^\{"Y":9,/,
  },
  {
    rule: "an unknown version",
    to: "POST /v2/models/echo_INT32/versions/3/generate",
    body: '{"X":9}',
    status: 404,
    says: "Request for unknown model: 'echo_INT32' version 3 is not found",
  },
];
