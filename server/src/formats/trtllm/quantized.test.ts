/** One layer of a TensorRT-LLM checkpoint in each integer storage that its converter writes. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fp16ToNumber } from "../../core/fp16.ts";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import { openTrtllmCheckpoint } from "./checkpoint.ts";
import { parseTrtllmConfig } from "./config.ts";
import { hasKernelLayout } from "./kernel-layout.ts";

const HIDDEN = 64;
const WIDTH = 64;
const VOCAB = 8;
const CONFIG = {
  architecture: "LlamaForCausalLM",
  dtype: "float32",
  vocab_size: VOCAB,
  hidden_size: HIDDEN,
  intermediate_size: WIDTH,
  num_hidden_layers: 1,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  head_size: 16,
  max_position_embeddings: 64,
  position_embedding_type: "rope_gpt_neox",
  hidden_act: "silu",
};
const AT = "transformer.layers.0";
const directory = await mkdtemp(join(tmpdir(), "trtllm-quantized-"));
after(() => rm(directory, { recursive: true }));

const floats = (shape: readonly number[], valueAt: (i: number) => number): TensorDraft => {
  const count = shape.reduce((product, size) => product * size, 1);
  return { dtype: "F32", shape: [...shape], data: Float32Array.from({ length: count }, (_, i) => valueAt(i)) };
};
const zeros = (...shape: number[]): TensorDraft => floats(shape, () => 0);

const PLAIN: Readonly<Record<string, TensorDraft>> = {
  "transformer.vocab_embedding.weight": zeros(VOCAB, HIDDEN),
  "transformer.ln_f.weight": zeros(HIDDEN),
  [`${AT}.input_layernorm.weight`]: zeros(HIDDEN),
  [`${AT}.post_layernorm.weight`]: zeros(HIDDEN),
  [`${AT}.attention.qkv.weight`]: zeros(3 * HIDDEN, HIDDEN),
  [`${AT}.attention.dense.weight`]: zeros(HIDDEN, HIDDEN),
  [`${AT}.mlp.fc.weight`]: zeros(WIDTH, HIDDEN),
  [`${AT}.mlp.gate.weight`]: zeros(WIDTH, HIDDEN),
  [`${AT}.mlp.proj.weight`]: zeros(HIDDEN, WIDTH),
};

/** The last matrix of the layer as floats, or its block type. */
async function readProj(
  algorithm: string,
  tensors: Readonly<Record<string, TensorDraft>>,
): Promise<{ readonly dtype: string | undefined; readonly read: () => Promise<Float32Array> }> {
  const folder = await mkdtemp(join(directory, "checkpoint-"));
  await writeFile(join(folder, "rank0.safetensors"), safetensorsBytes({ ...PLAIN, ...tensors }));
  const config = { ...CONFIG, quantization: { quant_algo: algorithm, group_size: 32 } };
  const source = await openTrtllmCheckpoint(folder, parseTrtllmConfig(config, "config.json"));
  const name = "model.layers.0.mlp.down_proj.weight";
  const { dtype, byteLength = 0 } = source.tensors.get(name) ?? {};
  const read = async (): Promise<Float32Array> => {
    const bytes = new Uint8Array(byteLength);
    await source.read(name, bytes);
    return dtype === "Q4_1" ? decodeQ41(bytes) : new Float32Array(bytes.buffer, 0, Math.floor(byteLength / 4));
  };
  return { dtype, read };
}

/** Blocks of 32: scale and minimum as FP16, then nibbles, the first half of the block in the low ones. */
function decodeQ41(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: (bytes.length / 20) * 32 }, (_, i) => {
    const at = Math.floor(i / 32) * 20;
    const byte = view.getUint8(at + 4 + (i % 16));
    const level = i % 32 < 16 ? byte & 15 : byte >>> 4;
    return level * fp16ToNumber(view.getUint16(at, true)) + fp16ToNumber(view.getUint16(at + 2, true));
  });
}

const levelAt = (row: number, column: number): number => ((row * 7 + column * 3) % 15) - 7;
/** Two signed nibbles to a byte: an even row in the low one, the next row in the high one. */
const nibbles = Int8Array.from({ length: (HIDDEN / 2) * WIDTH }, (_, i) => {
  const [row, column] = [2 * Math.floor(i / WIDTH), i % WIDTH];
  return (levelAt(row, column) & 15) | (levelAt(row + 1, column) << 4);
});
const bytes = (valueAt: (row: number, column: number) => number): Int8Array =>
  Int8Array.from({ length: HIDDEN * WIDTH }, (_, i) => valueAt(Math.floor(i / WIDTH), i % WIDTH));

test("openTrtllmCheckpoint() reads GPTQ, whose zeros are added to multiples of the scale", async () => {
  const scaleOf = (group: number): number => 1 + group / 1024;
  const zeroOf = (group: number): number => (group % 16) - 8;
  const parts = (zeroAt: (i: number) => number): Record<string, TensorDraft> => ({
    [`${AT}.mlp.proj.weight`]: { dtype: "I8", shape: [HIDDEN / 2, WIDTH], data: nibbles },
    [`${AT}.mlp.proj.weights_scaling_factor`]: floats([HIDDEN, 2], scaleOf),
    [`${AT}.mlp.proj.zero`]: floats([HIDDEN, 2], zeroAt),
  });
  const { dtype, read } = await readProj(
    "W4A16_GPTQ",
    parts((i) => zeroOf(i) * scaleOf(i)),
  );
  assert.equal(dtype, "Q4_1");
  for (const [i, value] of (await read()).entries()) {
    const group = Math.floor(i / 32);
    const expected = (levelAt(Math.floor(i / WIDTH), i % WIDTH) + zeroOf(group)) * scaleOf(group);
    assert.ok(Math.abs(value - expected) < 0.02, `element ${i} is ${value}, expected ${expected}`);
  }
  const broken = await readProj(
    "W4A16_GPTQ",
    parts((i) => zeroOf(i) * scaleOf(i) + 0.5),
  );
  await assert.rejects(broken.read(), /"transformer\.layers\.0\.mlp\.proj\.zero": expected a level from 0 to 16 times/);
});

test("openTrtllmCheckpoint() divides inputs by the smoother of SmoothQuant, and keeps bytes where it is all ones", async () => {
  const smootherAt = (column: number): number => 2 ** (column % 3);
  const parts = (valueAt: (i: number) => number): Record<string, TensorDraft> => ({
    [`${AT}.mlp.proj.weight`]: { dtype: "I8", shape: [HIDDEN, WIDTH], data: bytes(levelAt) },
    [`${AT}.mlp.proj.per_channel_scale`]: floats([1, HIDDEN], (row) => 2 ** (row % 4)),
    [`${AT}.mlp.proj.smoother`]: floats([1, WIDTH], valueAt),
  });
  for (const name of ["W8A8_SQ_PER_CHANNEL", "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN"]) {
    const { dtype, read } = await readProj(name, parts(smootherAt));
    assert.equal(dtype, "F32");
    const expected = Float32Array.from({ length: HIDDEN * WIDTH }, (_, i) => {
      const [row, column] = [Math.floor(i / WIDTH), i % WIDTH];
      return (levelAt(row, column) * 2 ** (row % 4)) / smootherAt(column);
    });
    assert.deepEqual(
      (await read()).map((value) => value + 0),
      expected.map((value) => value + 0),
    );
    assert.equal(
      (
        await readProj(
          name,
          parts(() => 1),
        )
      ).dtype,
      "Q8_0",
    );
  }
});

test("openTrtllmCheckpoint() reads SmoothQuant under the names of the tool that calibrates", async () => {
  const { dtype, read } = await readProj("W8A8_SQ_PER_CHANNEL", {
    [`${AT}.mlp.proj.weight`]: { dtype: "I8", shape: [HIDDEN, WIDTH], data: bytes(levelAt) },
    [`${AT}.mlp.proj.weights_scaling_factor`]: floats([HIDDEN], (row) => 2 ** (row % 4)),
    [`${AT}.mlp.proj.prequant_scaling_factor`]: floats([WIDTH], (column) => 2 ** (column % 3)),
    [`${AT}.mlp.proj.activation_scaling_factor`]: floats([1], () => 3),
  });
  assert.equal(dtype, "F32");
  const expected = Float32Array.from({ length: HIDDEN * WIDTH }, (_, i) => {
    const [row, column] = [Math.floor(i / WIDTH), i % WIDTH];
    return levelAt(row, column) * 2 ** (row % 4) * 2 ** (column % 3);
  });
  const values = await read();
  assert.deepEqual(
    values.map((value) => value + 0),
    expected.map((value) => value + 0),
  );
});

const small = (row: number, column: number): number => ((row * 5 + column * 11) % 41) - 20;
const weightOnly = (data: Int8Array): Record<string, TensorDraft> => ({
  [`${AT}.mlp.proj.weight`]: { dtype: "I8", shape: [WIDTH, HIDDEN], data },
  [`${AT}.mlp.proj.per_channel_scale`]: floats([HIDDEN], () => 1),
});

test("openTrtllmCheckpoint() refuses weights that were laid out for the kernels of one GPU", async () => {
  await (await readProj("W8A16", weightOnly(bytes(small)))).read();
  const raised = await readProj("W8A16", weightOnly(bytes((row, column) => small(row, column) ^ 0x80)));
  await assert.rejects(
    raised.read(),
    /mlp\.proj\.weight": expected integers in the order \[inputs, outputs\], got those/,
  );
});

test("hasKernelLayout() looks at both halves of a byte, and at no few bytes", () => {
  const pairs = new Uint8Array(256).fill(0x1f);
  assert.equal(hasKernelLayout(pairs, 4), false);
  const raised = pairs.map((byte) => byte ^ 0x88);
  assert.equal(hasKernelLayout(raised, 4), true);
  assert.equal(hasKernelLayout(raised.subarray(1), 4), false);
});

test("parseTrtllmConfig() takes AWQ with zeros of its own as GPTQ", () => {
  const quantization = (has_zero_point: boolean): object => ({
    quant_algo: "W4A16_AWQ",
    group_size: 32,
    has_zero_point,
  });
  for (const [hasZeros, scheme] of [
    [true, "gptq"],
    [false, "awq"],
  ] as const) {
    const parsed = parseTrtllmConfig({ ...CONFIG, quantization: quantization(hasZeros) }, "config.json");
    assert.deepEqual(parsed.quantization, { scheme, groupSize: 32 });
  }
});
