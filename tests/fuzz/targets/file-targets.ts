/** Readers of model files: GGUF, safetensors, ONNX and tar archives. */
import assert from "node:assert/strict";
import { TarReader } from "../../../server/src/files/tar/read-tar.ts";
import { pax, tarOf } from "../../../server/src/files/tar/tar-writer.test-support.ts";
import { PrefixTooShort } from "../../../server/src/formats/gguf/cursor.ts";
import {
  ARRAY,
  F32,
  type GgufField,
  ggufBytes,
  STRING,
  U32,
} from "../../../server/src/formats/gguf/gguf-writer.test-support.ts";
import { parseGgufHeader, parseGgufOutline } from "../../../server/src/formats/gguf/header.ts";
import { ggufTokenizerFiles } from "../../../server/src/formats/gguf/tokenizer.ts";
import { documentParts, parseOnnxDocument } from "../../../server/src/formats/onnx/document.ts";
import { checkExternalData, ExternalDataError } from "../../../server/src/formats/onnx/external-data.ts";
import { OnnxFormatError } from "../../../server/src/formats/onnx/model.ts";
import { parseHeaderLength, parseSafetensorsHeader } from "../../../server/src/formats/tensors/safetensors-header.ts";
import { safetensorsBytes } from "../../../server/src/formats/tensors/safetensors-writer.test-support.ts";
import { BYTE_TO_CHAR } from "../../../server/src/formats/tokenizer/byte-level-alphabet.ts";
import { createTokenizer } from "../../../server/src/formats/tokenizer/tokenizer.ts";
import { ProtoError } from "../../../wire/src/index.ts";
import { externalTensor, model, node, ONNX_TYPE, tensor } from "../../fakes/onnx-writer.ts";
import type { Random } from "../../support/random.ts";
import { type FuzzTarget, isPlainRefusal } from "../fuzz-target.ts";
import { mutateBytes } from "../mutators/mutate-bytes.ts";
import { mutateJsonOrValue } from "../mutators/mutate-json-or-value.ts";
import { mutateProto } from "../mutators/mutate-proto.ts";
import { mutateTar } from "../mutators/mutate-tar.ts";
import { withScratchFile } from "../scratch-file.ts";

const MAX_CASE_MS = 100;

const BYTE_TOKENS = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
const TOKENS: readonly string[] = ["<unk>", "<s>", "</s>", "\u2581a", "b", "\u2581ab", ...BYTE_TOKENS];
const TYPES = [2, 3, 3, 1, 1, 1, ...BYTE_TOKENS.map(() => 6)];
const GGUF: Buffer = Buffer.from(
  ggufBytes({
    fields: [["general.architecture", STRING, "llama"], ...tokenizerFields("llama"), ["general.alignment", U32, 32]],
    tensors: [
      { name: "a", sizes: [4, 2], type: 0, data: new Uint8Array(32) },
      { name: "b", sizes: [32], type: 8, data: new Uint8Array(34) },
    ],
  }),
);

function tokenizerFields(model: string): GgufField[] {
  return [
    ["tokenizer.ggml.model", STRING, model],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, TOKENS]],
    ["tokenizer.ggml.scores", ARRAY, [F32, TOKENS.map((_, i) => -i)]],
    ["tokenizer.ggml.token_type", ARRAY, [U32, TYPES]],
    ["tokenizer.ggml.bos_token_id", U32, 1],
    ["tokenizer.ggml.unknown_token_id", U32, 0],
  ];
}

/** The same tokens, read as each further kind. */
const OTHER_KINDS = ["bert", "t5", "rwkv", "plamo2"].map((kind) =>
  Buffer.from(ggufBytes({ fields: tokenizerFields(kind), tensors: [] })),
);
const GPT2_TOKENS: readonly string[] = [...BYTE_TO_CHAR, "ab", "<|end|>"];
const GPT2: Buffer = Buffer.from(
  ggufBytes({
    fields: [
      ["tokenizer.ggml.model", STRING, "gpt2"],
      ["tokenizer.ggml.pre", STRING, "llama-bpe"],
      ["tokenizer.ggml.tokens", ARRAY, [STRING, GPT2_TOKENS]],
      ["tokenizer.ggml.merges", ARRAY, [STRING, ["a b"]]],
      ["tokenizer.ggml.token_type", ARRAY, [U32, GPT2_TOKENS.map((token) => (token === "<|end|>" ? 3 : 1))]],
      ["tokenizer.ggml.eos_token_id", U32, GPT2_TOKENS.length - 1],
    ],
    tensors: [],
  }),
);

const gguf: FuzzTarget = {
  name: "gguf",
  seeds: [GGUF, GPT2, ...OTHER_KINDS],
  mutate: mutateBytes,
  read: (input) => {
    const { metadata } = parseGgufOutline(input, input.length, "f");
    const { tensors } = parseGgufHeader(input, input.length, "f");
    for (const { byteOffset, byteLength } of tensors.values()) assert.ok(byteOffset + byteLength <= input.length);
    const tokenizer = createTokenizer(ggufTokenizerFiles(metadata, "f"));
    tokenizer.decode(tokenizer.encode("ab a\nb", { addSpecialTokens: true }), { skipSpecialTokens: false });
  },
  isRefusal: (error) => isPlainRefusal(error) || error instanceof PrefixTooShort,
  maxCaseMs: MAX_CASE_MS,
};

const safetensors: FuzzTarget = {
  name: "safetensors",
  seeds: [
    Buffer.from(
      safetensorsBytes({
        "a.weight": { dtype: "F32", shape: [2, 2], data: new Float32Array(4) },
        b: { dtype: "U8", shape: [3], data: new Uint8Array(3) },
        scalar: { dtype: "I64", shape: [], data: new BigInt64Array(1) },
      }),
    ),
  ],
  mutate: mutateSafetensors,
  read: (input) => {
    const length = parseHeaderLength(input.subarray(0, 8), input.length, "f");
    const tensors = parseSafetensorsHeader(input.subarray(8, 8 + length), input.length, "f");
    const numBytes = [...tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
    assert.equal(8 + length + numBytes, input.length);
  },
  isRefusal: isPlainRefusal,
  maxCaseMs: MAX_CASE_MS,
};

/** The JSON is broken and its length put right, in most cases. */
function mutateSafetensors(seed: Buffer, random: Random): Buffer {
  if (random.below(4) === 0) return mutateBytes(seed, random);
  const length = Number(seed.readBigUInt64LE());
  const json = mutateJsonOrValue(seed.subarray(8, 8 + length), random);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([prefix, json, seed.subarray(8 + length)]);
}

const SPEC = {
  nodes: [node("Add", ["x", "w"], ["y"])],
  inputs: [["x", ONNX_TYPE.FLOAT, ["n", 2]]],
  outputs: [["y", ONNX_TYPE.FLOAT, ["n", 2]]],
} as const;
const ONNX_SEEDS: readonly Buffer[] = [
  model({ ...SPEC, initializers: [tensor("w", ONNX_TYPE.FLOAT, [2], new Uint8Array(8))] }),
  model({
    ...SPEC,
    initializers: [externalTensor("w", ONNX_TYPE.FLOAT, [2], { location: "weights.bin", offset: "0", length: "8" })],
  }),
].map((bytes) => Buffer.from(bytes));

/** A document that is written again has the same nodes and tensors. */
const onnxDocuments: FuzzTarget = {
  name: "onnx-document",
  seeds: ONNX_SEEDS,
  mutate: mutateProto,
  read: (input) => {
    const document = parseOnnxDocument(new Uint8Array(input));
    const parts = documentParts(document).filter((part) => part instanceof Uint8Array);
    const again = parseOnnxDocument(new Uint8Array(Buffer.concat(parts)));
    assert.deepEqual(again.nodes, document.nodes);
    assert.deepEqual([...again.tensors.keys()].sort(), [...document.tensors.keys()].sort());
  },
  isRefusal: (error) => isPlainRefusal(error) || error instanceof ProtoError,
  maxCaseMs: MAX_CASE_MS,
};

const onnxExternalData: FuzzTarget = {
  name: "onnx-external-data",
  seeds: ONNX_SEEDS,
  mutate: mutateProto,
  read: (input) => withScratchFile(input, checkExternalData),
  isRefusal: (error) => error instanceof OnnxFormatError || error instanceof ExternalDataError,
  maxCaseMs: MAX_CASE_MS,
};

const TAR: Buffer = tarOf([
  { name: "model/", type: "5" },
  pax({ path: "model/a long name", size: "4", mtime: "1.5" }),
  { name: "x", content: "abcd" },
  { name: "././@LongLink", type: "L", content: "model/another long name\0" },
  { name: "y", content: "efg" },
  { name: "z", type: "2", link: "x" },
]);
const TAR_LIMITS = { maxEntries: 50, maxBytes: 100_000 };

const tar: FuzzTarget = {
  name: "tar",
  seeds: [TAR],
  mutate: mutateTar,
  read: async (input) => {
    const reader = new TarReader(piecesOf(input), TAR_LIMITS);
    for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
      const { name } = entry;
      assert.ok(!name.startsWith("/") && !name.split("/").includes("..") && !name.includes("\0"), name);
      let numBytes = 0;
      if (entry.kind === "file") for await (const part of reader.content()) numBytes += part.length;
      assert.ok(numBytes <= input.length);
    }
  },
  // Its errors are RangeErrors of its own words; those of the engine begin otherwise.
  isRefusal: (error) =>
    error instanceof RangeError && /^(?:the (?:archive|checksum|mode|length)|entry '|what is at )/.test(error.message),
  maxCaseMs: MAX_CASE_MS,
};

async function* piecesOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 700) yield bytes.subarray(at, at + 700);
}

export const FILE_TARGETS: readonly FuzzTarget[] = [gguf, safetensors, onnxDocuments, onnxExternalData, tar];
