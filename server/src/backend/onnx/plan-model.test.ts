import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { addSub, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { PLAN_FORMAT_VERSION, planNoteParts, type SizesByInput } from "../../formats/onnx/plan-file.ts";
import type { ModelSource } from "../backend.ts";
import { createOnnxBackend, createPlanBackend } from "./onnx-backend.ts";
import { ShapeProfile } from "./plan-model.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-plan-"));
after(() => rmSync(folder, { recursive: true }));

function source(text: string, bytes: Uint8Array, name = "model.plan"): ModelSource {
  const versionFolder = mkdtempSync(join(folder, "version-"));
  writeFileSync(join(versionFolder, name), bytes);
  const silent = (): undefined => undefined;
  return {
    name: "m",
    version: 1,
    config: parseModelConfigText(`name: "m" ${text}`, "config.pbtxt"),
    modelFolder: folder,
    versionFolder,
    settings: new Map(),
    log: { info: silent, warn: silent, error: silent, verbose: silent, table: silent },
    models: { infer: () => assert.fail("no other model is called"), signature: () => assert.fail("nor looked at") },
    metrics: { register: () => assert.fail("no metric is registered") },
  };
}

function plan(max: number, formatVersion: number = PLAN_FORMAT_VERSION): Uint8Array {
  const sizes = (rows: number): SizesByInput => ({ INPUT0: [rows, 4], INPUT1: [rows, 4] });
  const note = planNoteParts({ formatVersion, precision: ["fp32"], min: sizes(1), opt: sizes(1), max: sizes(max) });
  return Buffer.concat([...(note as Uint8Array[]), addSub(ONNX_TYPE.FLOAT, ["rows", 4])]);
}

test("createPlanBackend() describes an engine with the largest batch that it was built for", async () => {
  await using backend = closing(createPlanBackend());
  const described = await backend.it.describe?.(source("", plan(8)));
  assert.deepEqual([described?.canBatch, described?.maxBatchSize], [true, 8]);
  const stated = await backend.it.describe?.(source("max_batch_size: 4", plan(8)));
  assert.equal(stated?.maxBatchSize, 4);
});

test("createPlanBackend() refuses what is no engine of ours, naming the command that makes one", async () => {
  await using backend = closing(createPlanBackend());
  const table: [Uint8Array, RegExp][] = [
    [
      Buffer.from("ptrt\0\0\0\0"),
      /is an engine of NVIDIA TensorRT, .*nereid trtexec --onnx=model.onnx --saveEngine=.*model\.plan/,
    ],
    [addSub(ONNX_TYPE.FLOAT, [4]), /is no engine; build it from the ONNX model: nereid trtexec/],
    [plan(8, PLAN_FORMAT_VERSION + 1), /is an engine of another version of nereid; build it/],
  ];
  for (const [bytes, message] of table) {
    await assert.rejects(backend.it.load(source("", bytes)), message);
  }
});

test("createPlanBackend() refuses batches that the engine was not built for", async () => {
  await using backend = closing(createPlanBackend());
  const declared = ["INPUT0", "INPUT1"]
    .map((name) => `input { name: "${name}" data_type: TYPE_FP32 dims: 4 }`)
    .join(" ");
  const loading = backend.it.load(source(`max_batch_size: 16 ${declared}`, plan(8)));
  await assert.rejects(loading, /has max_batch_size 16, but its engine was built for at most 8/);
  const loaded = await backend.it.load(source(`max_batch_size: 8 ${declared}`, plan(8)));
  await loaded.close();
});

test("createOnnxBackend() takes an engine's file as the ONNX model that it is", async () => {
  await using backend = closing(createOnnxBackend());
  const described = await backend.it.describe?.(source("", plan(8), "model.onnx"));
  assert.equal(described?.maxBatchSize, undefined);
});

test("ShapeProfile.expectShapes() names the first size that is out of its range", () => {
  const profile = new ShapeProfile({ min: { a: [1, 16] }, max: { a: [8, 64] } });
  const tensor = (name: string, shape: readonly number[]): Tensor => ({
    name,
    shape,
    datatype: "FP32",
    data: new Uint8Array(0),
  });
  profile.expectShapes([tensor("a", [8, 16]), tensor("b", [99])], "m_0");
  for (const [shape, axis, text] of [
    [[9, 16], 0, "between 1 and 8 but received 9"],
    [[1, 15], 1, "between 16 and 64 but received 15"],
  ] as const) {
    assert.throws(
      () => profile.expectShapes([tensor("a", shape)], "m_0"),
      (error) =>
        error instanceof ServerError &&
        error.message ===
          `request specifies invalid shape for input 'a' for m_0. Error details: model expected the shape of dimension ${axis} to be ${text}`,
    );
  }
});

function closing<T extends { close(): Promise<void> }>(it: T): AsyncDisposable & { readonly it: T } {
  return { it, [Symbol.asyncDispose]: () => it.close() };
}
