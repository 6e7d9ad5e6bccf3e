import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reporter } from "@nereid/server/files/progress";
import { parseOnnxDocument } from "@nereid/server/formats/onnx/document";
import { type ExportOptions, exportOnnx } from "./export-onnx.ts";

const ENCODERS = fileURLToPath(new URL("../../tests/parity/encoders/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-export-"));
after(() => rmSync(folder, { recursive: true }));

function options(model: string, more: Partial<ExportOptions> = {}): ExportOptions {
  return {
    modelDir: join(ENCODERS, model),
    outputDir: join(mkdtempSync(join(folder, "out-")), "onnx"),
    part: undefined,
    pooling: "auto",
    hasAttentionMask: false,
    isExternal: false,
    isForced: false,
    reporter: new Reporter({ mode: "quiet", command: "onnx export" }),
    signal: new AbortController().signal,
    ...more,
  };
}

/** A copy of a model's folder, to be changed. */
function copyOf(model: string): string {
  const copy = mkdtempSync(join(folder, "model-"));
  cpSync(join(ENCODERS, model), copy, { recursive: true });
  return copy;
}

test("exportOnnx() writes a file for each encoder, named after it when there are two", async () => {
  const both = options("clip");
  const files = await exportOnnx(both);
  assert.deepEqual(readdirSync(both.outputDir), ["text_model.onnx", "vision_model.onnx"]);
  assert.deepEqual(
    files.map(({ inputs, outputs }) => [inputs, outputs]),
    [
      [["input_ids"], ["text_embeds", "last_hidden_state"]],
      [["pixel_values"], ["image_embeds", "last_hidden_state"]],
    ],
  );
  const one = options("clip", { part: "vision" });
  await exportOnnx(one);
  assert.deepEqual(readdirSync(one.outputDir), ["model.onnx"]);
});

test("exportOnnx() pools as the files of a sentence encoder say", async () => {
  const table: [unknown, unknown, readonly string[]][] = [
    [undefined, undefined, ["last_hidden_state"]],
    [{ pooling_mode_cls_token: true }, undefined, ["last_hidden_state", "sentence_embedding"]],
    [
      { pooling_mode_mean_tokens: true },
      [{ type: "sentence_transformers.models.Normalize" }],
      ["last_hidden_state", "sentence_embedding"],
    ],
  ];
  const operators: boolean[] = [];
  for (const [pooling, modules, expected] of table) {
    const modelDir = copyOf("minilm");
    mkdirSync(join(modelDir, "1_Pooling"));
    if (pooling !== undefined) writeFileSync(join(modelDir, "1_Pooling", "config.json"), JSON.stringify(pooling));
    if (modules !== undefined) writeFileSync(join(modelDir, "modules.json"), JSON.stringify(modules));
    const [file] = await exportOnnx(options("minilm", { modelDir }));
    assert.deepEqual(file?.outputs, expected);
    const { nodes } = parseOnnxDocument(readFileSync(file?.path ?? ""));
    operators.push(nodes.some(({ operator }) => operator === "ReduceL2"));
  }
  assert.deepEqual(operators, [false, false, true]);
});

test("exportOnnx() says what of a folder it cannot export", async () => {
  const changed = (name: string, fields: Readonly<Record<string, unknown>>): string => {
    const modelDir = copyOf(name);
    const path = join(modelDir, "config.json");
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...fields }));
    return modelDir;
  };
  const maxPooling = copyOf("minilm");
  mkdirSync(join(maxPooling, "1_Pooling"));
  writeFileSync(join(maxPooling, "1_Pooling", "config.json"), '{"pooling_mode_max_tokens": true}');
  const table: [string, Partial<ExportOptions>, RegExp][] = [
    ["", {}, /ToolError: .*safetensors/],
    [changed("minilm", { model_type: "llama" }), {}, /model_type: expected bert, clip, .*got llama/],
    [changed("minilm", { hidden_act: "mish" }), {}, /hidden_act: expected one of gelu, .*got mish/],
    [
      changed("minilm", { hidden_size: 24 }),
      {},
      /Tensor embeddings\.\S+: expected .* \[any, 24\], got F32 \[\d+, 16\]/,
    ],
    [changed("minilm", { num_attention_heads: 3 }), {}, /num_attention_heads: expected a divisor of 16, got 3/],
    [changed("minilm", { num_hidden_layers: 3 }), {}, /no tensor encoder\.layer\.2\./],
    [changed("minilm", { position_embedding_type: "relative_key" }), {}, /expected absolute, got relative_key/],
    [join(ENCODERS, "minilm"), { part: "vision" }, /The model has no vision encoder/],
    [maxPooling, {}, /expected the mean of all tokens or the first one, got pooling_mode_max_tokens/],
  ];
  for (const [modelDir, more, message] of table) {
    const asked = options("minilm", { ...more, modelDir });
    await assert.rejects(exportOnnx(asked), message);
    assert.deepEqual(readdirSync(join(asked.outputDir, "..")), []);
  }
});

test("exportOnnx() replaces what it wrote before, and other files only when forced", async () => {
  const first = options("minilm", { isExternal: true });
  await exportOnnx(first);
  assert.deepEqual(readdirSync(first.outputDir), ["model.onnx", "model.onnx_data"]);
  await exportOnnx({ ...first, isExternal: false });
  assert.deepEqual(readdirSync(first.outputDir), ["model.onnx"]);
  writeFileSync(join(first.outputDir, "notes.txt"), "mine");
  await assert.rejects(exportOnnx(first), /is there already and holds 2 files/);
  await exportOnnx({ ...first, isForced: true });
  assert.deepEqual(readdirSync(first.outputDir), ["model.onnx", "model.onnx_data"]);
});
