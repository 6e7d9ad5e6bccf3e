/**
 * Bodies with bytes behind the JSON, and raw bodies. Source: Triton's binary data extension, as server/src/http_server.cc of Triton 2.70
 * reads it (GetInferenceHeaderLength, EVBufferToInput, EVBufferToRawInput), and InferenceRequest::Normalize of its core.
 */
import { type HttpRow, TEXT } from "./http-row.ts";

const HEADER = "Inference-Header-Content-Length";

function binary(json: object, tail: Uint8Array, length?: string): Pick<HttpRow, "body" | "headers"> {
  const head = Buffer.from(JSON.stringify(json));
  return { body: Buffer.concat([head, tail]), headers: { [HEADER]: length ?? String(head.length) } };
}

function raw(bytes: Uint8Array, length = "0"): Pick<HttpRow, "body" | "headers"> {
  return { body: bytes, headers: { [HEADER]: length } };
}

const REAL = (changes: object = {}): object => ({
  inputs: [{ name: "X", datatype: "FP64", shape: [2], parameters: { binary_data_size: 16 }, ...changes }],
});
const WORD = (shape: number, size: number): object => ({
  inputs: [{ name: "W", datatype: "BYTES", shape: [shape], parameters: { binary_data_size: size } }],
});
const LENGTH = JSON.stringify(REAL()).length;
const reals = "POST /v2/models/reals/infer";
const words = "POST /v2/models/words/infer";

export const BINARY_ROWS: readonly HttpRow[] = [
  {
    rule: "a length with letters behind it",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), `${LENGTH}x`),
    status: 200,
    says: /"data":\[0\.0,0\.0\]/,
  },
  {
    rule: "a length with a sign and zeros",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), `+00${LENGTH}`),
    status: 200,
    says: /"data":\[0\.0,0\.0\]/,
  },
  {
    rule: "a length in words",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), "all"),
    status: 400,
    type: TEXT,
    says: `Unable to parse ${HEADER}, got: all`,
  },
  {
    rule: "a length below 0",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), "-7"),
    status: 400,
    type: TEXT,
    says: `inference header size should be in range (0, ${LENGTH + 16}), got: -7`,
  },
  {
    rule: "a length behind the body",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), "1000"),
    status: 400,
    type: TEXT,
    says: `inference header size should be in range (0, ${LENGTH + 16}), got: 1000`,
  },
  {
    rule: "a length inside the JSON",
    to: reals,
    ...binary(REAL(), Buffer.alloc(16), "1"),
    status: 500,
    says: "failed to parse the request JSON buffer: Missing a name for object member. at 1",
  },
  {
    rule: "bytes missing",
    to: reals,
    ...binary(REAL(), Buffer.alloc(10)),
    status: 400,
    says: "unexpected size for input 'X', expecting 6 additional bytes for model 'reals'",
  },
  {
    rule: "bytes left over",
    to: reals,
    ...binary(REAL(), Buffer.alloc(17)),
    status: 400,
    says: "unexpected additional input data for model 'reals'",
  },
  {
    rule: "a datatype that is none",
    to: reals,
    ...binary(REAL({ datatype: "FLOAT" }), Buffer.alloc(16)),
    status: 400,
    says: "[request id: <id_unknown>] inference input 'X' data-type is '<invalid>', but model 'reals' expects 'FP64'",
  },
  {
    rule: "another shape than the bytes",
    to: reals,
    ...binary({ id: "b", ...REAL({ shape: [3] }) }, Buffer.alloc(16)),
    status: 400,
    says: "[request id: b] input byte size mismatch for input 'X' for model 'reals'. Expected 24, got 16",
  },
  {
    rule: "another rank",
    to: reals,
    ...binary(REAL({ shape: [1, 2] }), Buffer.alloc(16)),
    status: 400,
    says: "[request id: <id_unknown>] unexpected shape for input 'X' for model 'reals'. Expected [-1], got [1,2]. ",
  },
  {
    rule: "outputs of a wrong type behind bytes",
    to: reals,
    ...binary({ ...REAL(), outputs: 1 }, Buffer.alloc(16)),
    status: 500,
    says: "Unable to parse 'outputs': attempt to access JSON non-array as array",
  },
  {
    rule: "a name that the model lacks",
    to: reals,
    ...binary(REAL({ name: "Q" }), Buffer.alloc(16)),
    status: 400,
    says: "unexpected inference input 'Q' for model 'reals'",
  },
  {
    rule: "a length of a string that is cut",
    to: words,
    ...binary(WORD(1, 6), Buffer.alloc(6)),
    status: 400,
    says: "[request id: <id_unknown>] incomplete string length indicator for inference input 'W' for model 'words', expecting 4 bytes but only 2 bytes available. Please make sure the string length indicator is in one buffer.",
  },
  {
    rule: "a string too many",
    to: words,
    ...binary(WORD(1, 8), Buffer.alloc(8)),
    status: 400,
    says: "[request id: <id_unknown>] unexpected number of string elements 2 for inference input 'W' for model 'words', expecting 1",
  },
  {
    rule: "a string too few",
    to: words,
    ...binary(WORD(3, 8), Buffer.alloc(8)),
    status: 400,
    says: "[request id: <id_unknown>] expected 3 string elements for inference input 'W' for model 'words', got 2",
  },
  {
    rule: "a raw body of floats",
    to: reals,
    ...raw(Buffer.alloc(24)),
    status: 200,
    type: "application/octet-stream",
    says: /"shape":\[3\]/,
  },
  {
    rule: "a raw body that is no whole number of floats",
    to: reals,
    ...raw(Buffer.alloc(13)),
    status: 400,
    says: "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'reals'. Expected 8, got 13",
  },
  {
    rule: "a raw string for a variable dimension",
    to: words,
    ...raw(Buffer.from("hello")),
    status: 400,
    says: "[request id: <id_unknown>] For BYTE datatype raw input 'W', the model must have input shape [1]",
  },
  {
    rule: "an empty body for a variable dimension of strings",
    to: words,
    status: 400,
    says: "[request id: <id_unknown>] For BYTE datatype raw input 'W', the model must have input shape [1]",
  },
  {
    rule: "a raw string",
    to: "POST /v2/models/word/infer",
    ...raw(Buffer.from("hello")),
    status: 200,
    type: "application/octet-stream",
    says: /"binary_data_size":9.*hello$/s,
  },
  {
    rule: "a raw string by a hexadecimal zero",
    to: "POST /v2/models/word/infer",
    ...raw(Buffer.from("hello"), "0x5"),
    status: 200,
    type: "application/octet-stream",
    says: /hello$/,
  },
  {
    rule: "a raw body for two inputs",
    to: "POST /v2/models/pair/infer",
    ...raw(Buffer.alloc(12)),
    status: 400,
    says: "[request id: <id_unknown>] Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'pair' model configuration",
  },
  {
    rule: "a raw body for two variable dimensions",
    to: "POST /v2/models/plane/infer",
    ...raw(Buffer.alloc(12)),
    status: 400,
    says: "[request id: <id_unknown>] The shape of the raw input 'P' can not be deduced because there are more than one variable-sized dimension",
  },
  {
    rule: "FP16 asked for as JSON",
    to: "POST /v2/models/half/infer",
    ...binary(
      { inputs: [{ name: "H", datatype: "FP16", shape: [2], parameters: { binary_data_size: 4 } }] },
      Buffer.alloc(4),
    ),
    status: 400,
    type: TEXT,
    says: "sending FP16 data via JSON is not supported. Please use the binary data format for output",
  },
  {
    rule: "classes of FP16",
    to: "POST /v2/models/half/infer",
    ...binary(
      {
        inputs: [{ name: "H", datatype: "FP16", shape: [2], parameters: { binary_data_size: 4 } }],
        outputs: [{ name: "OUT", parameters: { classification: 1 } }],
      },
      Buffer.alloc(4),
    ),
    status: 400,
    type: TEXT,
    says: "class result not available for output due to unsupported type 'FP16'",
  },
  {
    rule: "an unsupported encoding",
    to: reals,
    body: "{}",
    headers: { "Content-Encoding": "br" },
    status: 501,
    type: TEXT,
    says: "Unsupported compression type",
  },
];
