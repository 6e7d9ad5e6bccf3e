import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoredTensor, TensorSource } from "../tensors/tensor-source.ts";
import { openGptOssExperts } from "./gpt-oss-experts.ts";

const [EXPERTS, INNER, WIDTH] = [2, 2, 32];
const AT = "model.layers.0.mlp.experts.";

function sourceOf(
  tensors: Readonly<Record<string, readonly [dtype: "U8" | "F32", number[], Uint8Array]>>,
): TensorSource {
  const stored = Object.entries(tensors).map(([name, [dtype, shape, bytes]]): readonly [string, StoredTensor] => [
    name,
    { name, dtype, shape, byteLength: bytes.length },
  ]);
  return {
    tensors: new Map(stored),
    read: async (name, into, offset = 0) => into.set(tensors[name]?.[2].subarray(offset, offset + into.length) ?? []),
    close: async () => undefined,
  };
}

async function valuesOf(source: TensorSource, name: string): Promise<Float32Array> {
  const bytes = new Uint8Array(source.tensors.get(name)?.byteLength ?? 0);
  // In pieces that end within a row.
  for (let at = 0; at < bytes.length; at += 52) await source.read(name, bytes.subarray(at, at + 52), at);
  return new Float32Array(bytes.buffer);
}

/** Row r of expert e: codes that count up, and the scale 2^(e + r). */
function mxfp4(): TensorSource {
  const rows = 2 * INNER;
  const blocks = Uint8Array.from({ length: EXPERTS * rows * 16 }, (_, i) => ((2 * i) & 15) | (((2 * i + 1) & 15) << 4));
  const scales = Uint8Array.from({ length: EXPERTS * rows }, (_, i) => 127 + Math.floor(i / rows) + (i % rows));
  return sourceOf({
    [`${AT}gate_up_proj_blocks`]: ["U8", [EXPERTS, rows, 1, 16], blocks],
    [`${AT}gate_up_proj_scales`]: ["U8", [EXPERTS, rows, 1], scales],
  });
}

const LEVELS = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

test("openGptOssExperts() reads MXFP4 blocks, gates in front", async () => {
  const source = openGptOssExperts(mxfp4());
  const name = `${AT}gate_up_proj.weight`;
  assert.deepEqual(source.tensors.get(name)?.shape, [EXPERTS, 2 * INNER, WIDTH]);
  const order = [0, 2, 1, 3];
  const expected = Array.from({ length: EXPERTS }, (_, expert) =>
    order.flatMap((row) =>
      Array.from({ length: WIDTH }, (__, i) => (i % 16 > 7 ? -1 : 1) * (LEVELS[i % 8] ?? 0) * 2 ** (expert + row)),
    ),
  ).flat();
  assert.deepEqual(
    [...(await valuesOf(source, name))].map((value) => value + 0),
    expected.map((value) => value + 0),
  );
});

test("openGptOssExperts() gives the blocks of an expert as they are, gates in front", async () => {
  const source = openGptOssExperts(mxfp4());
  const matrix = await source.mxfp4?.get(`${AT}gate_up_proj.weight`)?.readExpert(1);
  const order = [0, 2, 1, 3];
  assert.deepEqual(
    [...(matrix?.exponents ?? [])],
    order.map((row) => 127 + 1 + row),
  );
  assert.equal(matrix?.blocks.length, 2 * INNER * 16);
  assert.deepEqual([...(matrix?.blocks.subarray(0, 3) ?? [])], [0x10, 0x32, 0x54]);
});

test("openGptOssExperts() transposes floats, and orders biases as rows", async () => {
  const floats = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
  const source = openGptOssExperts(
    sourceOf({
      // [experts, inputs, outputs]: 1 expert, 2 inputs, outputs gate 0, up 0, gate 1, up 1.
      [`${AT}gate_up_proj`]: ["F32", [1, 2, 4], floats(1, 2, 3, 4, 5, 6, 7, 8)],
      [`${AT}gate_up_proj_bias`]: ["F32", [1, 4], floats(1, 2, 3, 4)],
      [`${AT}down_proj`]: ["F32", [1, 2, 2], floats(1, 2, 3, 4)],
    }),
  );
  assert.deepEqual([...(await valuesOf(source, `${AT}gate_up_proj.weight`))], [1, 5, 3, 7, 2, 6, 4, 8]);
  assert.deepEqual([...(await valuesOf(source, `${AT}gate_up_proj.bias`))], [1, 3, 2, 4]);
  assert.deepEqual([...(await valuesOf(source, `${AT}down_proj.weight`))], [1, 3, 2, 4]);
});

test("openGptOssExperts() refuses blocks without scales for them", () => {
  const blocks = new Uint8Array(16);
  assert.throws(
    () => openGptOssExperts(sourceOf({ [`${AT}down_proj_blocks`]: ["U8", [1, 1, 1, 16], blocks] })),
    /down_proj_blocks": expected U8 blocks of 16 bytes and a scale for each, got U8\[1, 1, 1, 16\] and none/,
  );
});
