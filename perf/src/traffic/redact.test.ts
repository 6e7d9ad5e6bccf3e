import assert from "node:assert/strict";
import { test } from "node:test";
import { packBytesElements, schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import { redactHeaders, redactHttp, rulesOf } from "./redact.ts";
import { GrpcRedactor } from "./redact-grpc.ts";

const NONE = { headers: [], fields: [], tensors: [], patterns: [] };

function redactText(text: string, names: Partial<typeof NONE> | Record<string, readonly string[]>): string {
  const redacted = redactHttp(
    { bytes: Buffer.from(text), jsonLength: undefined, isCompressed: false },
    rulesOf({ ...NONE, ...names }),
  );
  return "omitted" in redacted ? redacted.omitted : redacted.bytes.toString();
}

test("redactHeaders() masks credentials always, and names that are given", () => {
  const headers = [
    ["Authorization", "Bearer a"],
    ["Cookie", "b"],
    ["X-Tenant", "c"],
    ["Accept", "d"],
  ] as const;
  const rules = rulesOf({ ...NONE, headers: ["x-tenant"] });
  assert.deepEqual(
    redactHeaders(headers, rules).map(([, value]) => value),
    ["(redacted)", "(redacted)", "(redacted)", "d"],
  );
});

for (const [what, names, text, expected] of [
  ["nothing without rules", {}, '{ "a": 1 }', '{ "a": 1 }'],
  [
    "members anywhere",
    { fields: ["user"] },
    '{"user":"u","m":[{"user":{"n":5,"s":"t"}}]}',
    '{"user":"(redacted)","m":[{"user":{"n":0,"s":"(redacted)"}}]}',
  ],
  [
    "tensors by name",
    { tensors: ["A"] },
    '{"inputs":[{"name":"A","data":["x",[1]]},{"name":"B","data":["y"]}]}',
    '{"inputs":[{"name":"A","data":["(redacted)",[0]]},{"name":"B","data":["y"]}]}',
  ],
  ["patterns in texts", { patterns: ["\\d{4}"] }, '{"p":"pin 1234 ok","n":1234}', '{"p":"pin xxxx ok","n":1234}'],
  [
    "events of a stream",
    { fields: ["k"] },
    'data: {"k":"a","t":1}\n\ndata: [DONE]\n',
    'data: {"k":"(redacted)","t":1}\n\ndata: [DONE]\n',
  ],
  [
    "all of a body that is no JSON",
    { fields: ["k"] },
    "k=secret",
    "redaction rules cannot be applied to a body that is no JSON",
  ],
] as const) {
  test(`redactHttp() masks ${what}`, () => {
    assert.equal(redactText(text, names), expected);
  });
}

test("redactHttp() masks binary tensors where they are, and states the new length of the JSON", () => {
  const texts = packBytesElements(["card 1234", "é 5678"]);
  const inputs = [
    { name: "N", datatype: "INT32", shape: [1], parameters: { binary_data_size: 4 } },
    { name: "T", datatype: "BYTES", shape: [2], parameters: { binary_data_size: texts.length } },
  ];
  const json = Buffer.from(JSON.stringify({ parameters: { user: "u" }, inputs }));
  const body = {
    bytes: Buffer.concat([json, Buffer.from([7, 7, 7, 7]), texts]),
    jsonLength: json.length,
    isCompressed: false,
  };
  const redacted = redactHttp(body, rulesOf({ ...NONE, fields: ["user"], tensors: ["N"], patterns: ["\\d{4}"] }));
  assert.ok(!("omitted" in redacted));
  const { bytes, jsonLength = 0 } = redacted;
  assert.equal(JSON.parse(bytes.toString("utf8", 0, jsonLength)).parameters.user, "(redacted)");
  assert.deepEqual(
    bytes.subarray(jsonLength),
    Buffer.concat([Buffer.alloc(4), packBytesElements(["card xxxx", "é xxxx"])]),
  );
  assert.ok(body.bytes.includes("card 1234"), "the bytes that are passed on stay as they are");
});

test("redactHttp() leaves out what is compressed, and wipes texts whose lengths do not fit", () => {
  const rules = rulesOf({ ...NONE, patterns: ["a"] });
  assert.ok("omitted" in redactHttp({ bytes: Buffer.from("x"), jsonLength: undefined, isCompressed: true }, rules));
  const json = Buffer.from('{"inputs":[{"name":"T","datatype":"BYTES","parameters":{"binary_data_size":5}}]}');
  const bytes = Buffer.concat([json, Buffer.from([9, 0, 0, 0, 97])]);
  const redacted = redactHttp({ bytes, jsonLength: json.length, isCompressed: false }, rules);
  assert.ok(!("omitted" in redacted));
  assert.deepEqual(redacted.bytes.subarray(redacted.jsonLength), Buffer.alloc(5));
});

test("GrpcRedactor masks parameters, raw and typed contents, and refuses what is no message", () => {
  const type = protobuf.Root.fromJSON(schema as protobuf.INamespace).lookupType("inference.ModelInferRequest");
  const message = {
    model_name: "m",
    parameters: { user: { string_param: "u" }, note: { string_param: "pin 1234" } },
    inputs: [
      { name: "T", datatype: "BYTES", shape: [1] },
      { name: "S", datatype: "INT32", shape: [1], contents: { int_contents: [5] } },
    ],
    raw_input_contents: [packBytesElements(["1234"])],
  };
  const bytes = Buffer.from(type.encode(type.fromObject(message)).finish());
  const redactor = new GrpcRedactor(rulesOf({ ...NONE, fields: ["user"], tensors: ["S"], patterns: ["\\d{4}"] }));
  const path = "/inference.GRPCInferenceService/ModelInfer";
  const masked = redactor.redact(bytes, path, "request");
  assert.ok(masked);
  const read = type.toObject(type.decode(masked));
  assert.deepEqual(read.parameters, { user: { string_param: "(redacted)" }, note: { string_param: "pin xxxx" } });
  assert.deepEqual(read.inputs[1].contents.int_contents, [0]);
  assert.deepEqual(Buffer.from(read.raw_input_contents[0]), Buffer.from(packBytesElements(["xxxx"])));
  assert.equal(redactor.redact(Buffer.from([255, 255]), path, "request"), undefined);
});
