/**
 * Models whose weights do not fit into one file, with a limit of some kilobytes instead of protobuf's two gigabytes.
 */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { Reporter } from "@nereid/server/files/progress";
import { readExternalData } from "@nereid/server/formats/onnx/model";
import { readPlan } from "@nereid/server/formats/onnx/plan-file";
import { externalTensor, model, node, ONNX_TYPE } from "../../tests/fakes/onnx-writer.ts";
import { buildPlan, type PlanOptions } from "./build-plan.ts";
import { quantizeOnnx } from "./quantize-onnx.ts";
import { parseShapes } from "./shapes.ts";

const SIZE = 64;
const MATRIX_BYTES: number = 4 * SIZE * SIZE;
/** Three matrices do not fit, three of integers do. */
const MAX_FILE_BYTES: number = 2 * MATRIX_BYTES;
const folder = mkdtempSync(join(tmpdir(), "nereid-large-"));
after(() => rmSync(folder, { recursive: true }));

/** Three MatMul nodes with external matrices. */
function writeModel(): string {
  const path = join(mkdtempSync(join(folder, "model-")), "model.onnx");
  const weights = Float32Array.from({ length: 3 * SIZE * SIZE }, (_, i) => Math.sin(i * 1.7) / 8);
  writeFileSync(join(dirname(path), "weights.bin"), weights);
  const names = ["A", "B", "C"];
  const spec = {
    nodes: names.map((name, i) => node("MatMul", [i === 0 ? "X" : `y${i - 1}`, name], [i === 2 ? "Y" : `y${i}`])),
    initializers: names.map((name, i) => {
      const place = { location: "weights.bin", offset: String(i * MATRIX_BYTES), length: String(MATRIX_BYTES) };
      return externalTensor(name, ONNX_TYPE.FLOAT, [SIZE, SIZE], place);
    }),
    inputs: [["X", ONNX_TYPE.FLOAT, ["batch", SIZE]]],
    outputs: [["Y", ONNX_TYPE.FLOAT, ["batch", SIZE]]],
  } as const;
  writeFileSync(path, model(spec));
  return path;
}

const reporter = new Reporter({ mode: "quiet", command: "test" });
const { signal } = new AbortController();

function planOptions(output: string, more: Partial<PlanOptions> = {}): PlanOptions {
  const all = parseShapes("--shapes", `X:2x${SIZE}`);
  const options = { input: writeModel(), output, isHalf: false, isInteger: false, reporter, signal };
  return { ...options, shapes: { min: all, opt: all, max: all }, maxFileBytes: MAX_FILE_BYTES, ...more };
}

/** The files of a folder, names of weights without what makes them unique. */
function filesIn(path: string): string[] {
  return readdirSync(dirname(path))
    .map((name) => name.replace(/_data-[0-9a-f]{8}$/, "_data"))
    .sort();
}

test("buildPlan() puts weights into a file of their own where one does not hold them, and replaces both", async () => {
  const output = join(folder, "plan", "model.plan");
  for (const isHalf of [false, true]) {
    const options = planOptions(output, { isHalf, maxFileBytes: MAX_FILE_BYTES / 2 });
    const { bytesAfter, errors, numHalf } = await buildPlan(options);
    assert.equal(numHalf, isHalf ? 3 : 0);
    assert.ok(bytesAfter > (isHalf ? 1.5 : 3) * MATRIX_BYTES);
    assert.ok((errors.get("Y")?.max ?? 1) < 0.02);
    assert.deepEqual(filesIn(output), ["model.plan", "model.plan_data"]);
    assert.equal((await readPlan(output)).kind, "nereid");
    const places = await readExternalData(output);
    assert.equal(places.length, 3);
    const { location = "" } = Object.fromEntries(places[0]?.entries ?? []);
    assert.ok(existsSync(join(dirname(output), location)));
    assert.ok(statSync(output).size < 4096);
  }
});

test("buildPlan() with integers that fit writes one file of a model that did not", async () => {
  const output = join(folder, "integers", "model.plan");
  const { numInteger, errors } = await buildPlan(planOptions(output, { isInteger: true }));
  assert.equal(numInteger, 3);
  assert.ok((errors.get("Y")?.cosine ?? 0) > 0.98);
  assert.deepEqual(filesIn(output), ["model.plan"]);
});

test("quantizeOnnx() takes weights beside a model one by one, and its own go there when they do not fit", async () => {
  for (const [maxFileBytes, expected] of [
    [MAX_FILE_BYTES, ["model.onnx"]],
    [MATRIX_BYTES / 2, ["model.onnx", "model.onnx_data"]],
  ] as const) {
    const output = join(folder, `quantized-${maxFileBytes}`, "model.onnx");
    const samples = { files: [], shapes: new Map(), count: 2, seed: 0 };
    const options = { input: writeModel(), output, samples, type: "int8", isReduced: true, maxFileBytes } as const;
    const { numMatmuls, bytesBefore, bytesAfter, errors } = await quantizeOnnx({ ...options, reporter, signal });
    assert.equal(numMatmuls, 3);
    assert.ok(bytesBefore > 3 * MATRIX_BYTES && bytesAfter < MATRIX_BYTES);
    assert.ok((errors.get("Y")?.cosine ?? 0) > 0.95);
    assert.deepEqual(filesIn(output), expected);
  }
});

test("what a killed run left of weights goes with the next one, and other files stay", async () => {
  const output = join(folder, "killed", "model.plan");
  mkdirSync(dirname(output));
  for (const name of ["model.plan_data-0123abcd", "other.plan_data-0123abcd", "notes_data-x"]) {
    writeFileSync(join(dirname(output), name), "left");
  }
  await buildPlan(planOptions(output));
  const names = readdirSync(dirname(output)).filter((name) => !name.startsWith("model.plan"));
  assert.deepEqual(names.sort(), ["notes_data-x", "other.plan_data-0123abcd"]);
  assert.equal(existsSync(join(dirname(output), "model.plan_data-0123abcd")), false);
});
