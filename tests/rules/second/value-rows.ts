/**
 * Values of each datatype through JSON, answers and their parts, classes, and bytes. Source: ParseJsonTritonIO and FinalizeResponse of
 * Triton 2.70 (server/src/http_server.cc, common.cc), and the observed answers of that release.
 */
import { type HttpRow, refusals, TEXT } from "../http-row.ts";

const SIGNED = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
const UNSIGNED = "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer";
const BOOLEAN = "Unable to parse 'data': attempt to access JSON non-boolean as boolean";
const BINARY = "application/octet-stream";

/** Datatypes of the models `echo_<datatype>`, which give X back as Y. */
export const DATATYPES = [
  "INT8",
  "UINT8",
  "INT16",
  "UINT16",
  "INT32",
  "UINT32",
  "INT64",
  "UINT64",
  "BOOL",
  "FP32",
  "FP64",
  "BYTES",
] as const;
type Datatype = (typeof DATATYPES)[number];

export const pathOf = (datatype: Datatype, rest = "infer"): string => `POST /v2/models/echo_${datatype}/${rest}`;

function sent(datatype: Datatype, data: string, shape: string, more = ""): string {
  return `{${more}"inputs":[{"name":"X","datatype":"${datatype}","shape":${shape},"data":${data}}]}`;
}

/** One element, and how it comes back: values that do not fit wrap silently. */
const ELEMENTS: readonly (readonly [Datatype, sent: string, back: string])[] = [
  ["INT8", "127", "127"],
  ["INT8", "128", "-128"],
  ["INT8", "-129", "127"],
  ["INT8", "-0", "0"],
  ["UINT8", "255", "255"],
  ["UINT8", "256", "0"],
  ["INT16", "-32768", "-32768"],
  ["INT16", "32768", "-32768"],
  ["UINT16", "65535", "65535"],
  ["UINT16", "65537", "1"],
  ["INT32", "-2147483648", "-2147483648"],
  ["INT32", "4294967299", "3"],
  ["UINT32", "4294967295", "4294967295"],
  ["UINT32", "4294967296", "0"],
  ["INT64", "9223372036854775807", "9223372036854775807"],
  ["INT64", "-9223372036854775808", "-9223372036854775808"],
  ["INT64", "9007199254740995", "9007199254740995"],
  ["UINT64", "18446744073709551614", "18446744073709551614"],
  ["UINT64", "9223372036854775809", "9223372036854775809"],
  ["BOOL", "true", "true"],
  ["BOOL", "false", "false"],
  ["FP32", "3", "3.0"],
  ["FP32", "NaN", "NaN"],
  ["FP32", "-Infinity", "-Infinity"],
  ["FP64", "-0.0", "-0.0"],
  ["FP64", "Infinity", "Infinity"],
  ["FP64", "1E+2", "100.0"],
  ["BYTES", '"\\u0041\\n"', '"A\\\\n"'],
  ["BYTES", '""', '""'],
  ["BYTES", '"\\u0001"', '"\\\\u0001"'],
  ["BYTES", '"a\\/b"', '"a/b"'],
];

/** The text of a pattern that finds a text. */
function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]]/g, "\\$&");
}

const VALUES: readonly HttpRow[] = ELEMENTS.map(([datatype, data, back]) => ({
  rule: `${datatype} ${data}`,
  to: pathOf(datatype),
  body: sent(datatype, `[${data}]`, "[1]"),
  status: 200,
  says: new RegExp(`"shape":\\[1\\],"data":\\[${literal(back)}\\]`),
}));

const REFUSED: readonly (readonly [Datatype, string, string])[] = [
  ["UINT8", "-1", UNSIGNED],
  ["UINT16", '"7"', UNSIGNED],
  ["UINT32", "1e2", UNSIGNED],
  ["UINT64", "18446744073709551616", UNSIGNED],
  ["UINT64", "-3", UNSIGNED],
  ["INT8", "1.0", SIGNED],
  ["INT16", "true", SIGNED],
  ["INT64", "-9223372036854775809", SIGNED],
  ["BOOL", "1", BOOLEAN],
  ["BOOL", '"true"', BOOLEAN],
  ["FP32", '"1.5"', "Unable to parse 'data': attempt to access JSON non-number as double"],
  ["FP64", "false", "Unable to parse 'data': attempt to access JSON non-number as double"],
];

const REFUSALS: readonly HttpRow[] = REFUSED.map(([datatype, data, says]) => ({
  rule: `${datatype} ${data}`,
  to: pathOf(datatype),
  body: sent(datatype, `[${data}]`, "[1]"),
  status: 500,
  says,
}));

function answer(rule: string, datatype: Datatype, body: string, says: HttpRow["says"], type?: string): HttpRow {
  return { rule, to: pathOf(datatype), body, status: 200, says, ...(type === undefined ? {} : { type }) };
}

const ANSWERS: readonly HttpRow[] = [
  answer(
    "an id comes first",
    "INT32",
    sent("INT32", "[1]", "[1]", '"id":"a b",'),
    /^\{"id":"a b","model_name":"echo_INT32","model_version":"1",/,
  ),
  answer("an empty id is left out", "INT32", sent("INT32", "[1]", "[1]", '"id":"",'), /^\{"model_name"/),
  answer(
    "of a member twice the first counts",
    "INT32",
    sent("INT32", "[1]", "[1]", '"id":"one","id":"two",'),
    /^\{"id":"one"/,
  ),
  answer(
    "nested data come back flat",
    "FP64",
    sent("FP64", "[[1,2.5],[[3],4]]", "[4]"),
    /"shape":\[4\],"data":\[1\.0,2\.5,3\.0,4\.0\]/,
  ),
  answer("no elements", "INT64", sent("INT64", "[]", "[0]"), /"shape":\[0\],"data":\[\]/),
  answer(
    "an empty list of outputs is all of them",
    "UINT8",
    sent("UINT8", "[4]", "[1]", '"outputs":[],'),
    /"outputs":\[\{"name":"Y","datatype":"UINT8"/,
  ),
  answer(
    "parameters of each type are taken",
    "INT8",
    sent("INT8", "[4]", "[1]", '"parameters":{"s":"x","i":-7,"b":false,"d":2.5},'),
    /"data":\[4\]/,
  ),
  answer(
    "priority and timeout without levels",
    "INT8",
    sent("INT8", "[4]", "[1]", '"parameters":{"priority":9,"timeout":1},'),
    /"data":\[4\]/,
  ),
  answer(
    "a sequence id on a model without sequences",
    "INT8",
    sent("INT8", "[4]", "[1]", '"parameters":{"sequence_id":"s-1","sequence_start":true},'),
    /"data":\[4\]/,
  ),
  answer("unknown members are ignored", "INT8", sent("INT8", "[4]", "[1]", '"more":{"deep":[1]},'), /"data":\[4\]/),
  answer(
    "blanks between members",
    "INT8",
    `\n\t {"inputs" : [ {"name":"X" , "datatype":"INT8","shape":[ 1 ],"data":[ 9 ]} ] } `,
    /"data":\[9\]/,
  ),
  answer(
    "binary data for all outputs",
    "INT16",
    sent("INT16", "[16961]", "[1]", '"parameters":{"binary_data_output":true},'),
    /"parameters":\{"binary_data_size":2\}\}\]\}AB$/,
    BINARY,
  ),
  answer(
    "a listed output is JSON all the same",
    "INT16",
    sent("INT16", "[258]", "[1]", '"parameters":{"binary_data_output":true},"outputs":[{"name":"Y"}],'),
    /"data":\[258\]\}\]\}$/,
  ),
  answer(
    "binary data for one output",
    "BYTES",
    sent("BYTES", '["xy"]', "[1]", '"outputs":[{"name":"Y","parameters":{"binary_data":true}}],'),
    /"binary_data_size":6\}\}\]\}\W{4}xy$/,
    BINARY,
  ),
  answer(
    "binary data refused for one output",
    "INT16",
    sent(
      "INT16",
      "[7]",
      "[1]",
      '"parameters":{"binary_data_output":true},"outputs":[{"name":"Y","parameters":{"binary_data":false}}],',
    ),
    /"data":\[7\]\}\]\}$/,
  ),
  answer(
    "binary data of no bytes are JSON",
    "INT16",
    sent("INT16", "[]", "[0]", '"parameters":{"binary_data_output":true},'),
    /"shape":\[0\],"parameters":\{"binary_data_size":0\}\}\]\}$/,
  ),
];

function classes(rule: string, datatype: Datatype, data: string, k: number, says: RegExp, more = ""): HttpRow {
  const count = JSON.parse(data.replaceAll(/NaN|Infinity/g, "0")).length;
  const outputs = `"outputs":[{"name":"Y","parameters":{"classification":${k}${more}}}],`;
  return answer(rule, datatype, sent(datatype, data, `[${count}]`, outputs), says);
}

const CLASSES: readonly HttpRow[] = [
  classes(
    "floats have six digits",
    "FP32",
    "[0.5,-3,1e7]",
    3,
    /"datatype":"BYTES","shape":\[3\],"data":\["10000000\.000000:2","0\.500000:0","-3\.000000:1"\]/,
  ),
  classes("doubles too", "FP64", "[0.1234567891,2]", 1, /"shape":\[1\],"data":\["2\.000000:1"\]/),
  classes("more classes than elements", "INT8", "[-5,3]", 7, /"shape":\[2\],"data":\["3:1","-5:0"\]/),
  classes("unsigned bytes", "UINT8", "[3,200,17]", 2, /"data":\["200:1","17:2"\]/),
  classes("64 bits", "UINT64", "[18446744073709551615,1]", 1, /"data":\["18446744073709551615:0"\]/),
  classes("negative 64 bits", "INT64", "[-2,-9223372036854775808]", 2, /"data":\["-2:0","-9223372036854775808:1"\]/),
];

const GZIP_REFUSED = "Unsupported compression type";

const TRANSFER: readonly HttpRow[] = [
  {
    rule: "an encoding that is none",
    to: pathOf("INT8"),
    body: sent("INT8", "[1]", "[1]"),
    headers: { "Content-Encoding": "br" },
    status: 501,
    type: TEXT,
    says: GZIP_REFUSED,
  },
  {
    rule: "any content type is JSON",
    to: pathOf("INT8"),
    body: sent("INT8", "[6]", "[1]"),
    headers: { "Content-Type": "image/png" },
    status: 200,
    says: /"data":\[6\]/,
  },
  {
    rule: "identity is no compression",
    to: pathOf("INT8"),
    body: sent("INT8", "[6]", "[1]"),
    headers: { "Accept-Encoding": "identity;q=1, gzip;q=0.2" },
    status: 200,
    says: /"data":\[6\]/,
  },
  {
    rule: "a query is ignored",
    to: `${pathOf("INT8")}?model=none&x=%00`,
    body: sent("INT8", "[8]", "[1]"),
    status: 200,
    says: /"data":\[8\]/,
  },
  ...refusals(
    "POST /v2/models/echo_INT8/versions/2/infer",
    [
      [
        "an unknown version",
        sent("INT8", "[1]", "[1]"),
        404,
        "Request for unknown model: 'echo_INT8' version 2 is not found",
      ],
    ],
    TEXT,
  ),
  {
    rule: "a version by name",
    to: "POST /v2/models/echo_INT8/versions/1/infer",
    body: sent("INT8", "[3]", "[1]"),
    status: 200,
    says: /"model_version":"1".*"data":\[3\]/,
  },
];

export const VALUE_ROWS: readonly HttpRow[] = [...VALUES, ...REFUSALS, ...ANSWERS, ...CLASSES, ...TRANSFER];
