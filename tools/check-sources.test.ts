import assert from "node:assert/strict";
import { test } from "node:test";
import { headComment, namesSource } from "./source-rules.ts";

const SOURCES = [
  "RFC 9113, section 6.9",
  "see https://www.w3.org/TR/wasm-js-api-2/",
  "Source: TensorRT-LLM documentation",
  "LoRA (Hu et al. 2021)",
  "Granlund and Montgomery (1994)",
  "Clinger, 1990",
  "the KServe V2 protocol",
  "Triton's binary data extension",
  "Triton's model repository extension",
  "gRPC over HTTP/2",
  "protobuf.dev, Encoding",
  "IEEE 754-2019",
  "server-sent events",
  "onnx.proto",
  "PTX ISA 9.7.13",
  "AWS Signature Version 4",
];
for (const source of SOURCES) {
  test(`namesSource() accepts "${source}"`, () => {
    assert.ok(namesSource(`/**\n * Reads something: ${source}.\n */\nexport const a = 1;\n`));
  });
}

for (const comment of [
  "Reads a header.",
  "Written in 2021.",
  "See reader.ts.",
  "Request for comments",
  "Triton's clients",
]) {
  test(`namesSource() takes "${comment}" for no source`, () => {
    assert.ok(!namesSource(`/** ${comment} */\nexport const a = 1;\n`));
  });
}

test("headComment() ends at the first declaration, passes over imports and joins lines", () => {
  const text =
    '// The RFC\n// 9113\nimport {\n  a,\n} from "a";\n\n/** Behind imports. */\nconst b = 1;\n/** RFC 1 */\n';
  assert.equal(headComment(text), "// The RFC 9113\n/** Behind imports. */");
  assert.ok(namesSource(text));
  assert.ok(!namesSource("const b = 1;\n/** RFC 9113 */\n"));
});

test("headComment() reads CUDA sources", () => {
  assert.equal(headComment("#include <cuda_bf16.h>\n// PTX\n// ISA 9\n__global__ void f() {}\n"), "// PTX ISA 9");
});
