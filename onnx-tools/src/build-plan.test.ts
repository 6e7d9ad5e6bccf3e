import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Reporter } from "@nereid/server/files/progress";
import { planContent } from "@nereid/server/formats/onnx/plan-file";
import { externalTensor, model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";
import { buildPlan, type PlanOptions } from "./build-plan.ts";
import { latencyStatistics, measurePlan } from "./measure-plan.ts";
import { parseShapes } from "./shapes.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-build-plan-"));
after(() => rmSync(folder, { recursive: true }));
const SIZE = 32;

/** Y = X W + P, with a table of positions that ends after four rows. */
function writeModel(): string {
  const path = join(mkdtempSync(join(folder, "model-")), "model.onnx");
  const weights = Float32Array.from({ length: SIZE * SIZE }, (_, index) => Math.sin(index));
  const spec = {
    nodes: [node("MatMul", ["X", "W"], ["product"]), node("Add", ["product", "P"], ["Y"])],
    initializers: [
      tensor("W", ONNX_TYPE.FLOAT, [SIZE, SIZE], new Uint8Array(weights.buffer)),
      tensor("P", ONNX_TYPE.FLOAT, [4, SIZE], new Uint8Array(weights.buffer, 0, 4 * 4 * SIZE)),
    ],
    inputs: [["X", ONNX_TYPE.FLOAT, ["batch", 4, SIZE]]],
    outputs: [["Y", ONNX_TYPE.FLOAT, ["batch", 4, SIZE]]],
  } as const;
  writeFileSync(path, model(spec));
  return path;
}

function options(input: string, more: Partial<PlanOptions>, shapes = "X:2x4x32"): PlanOptions {
  const all = parseShapes("--shapes", shapes);
  return {
    input,
    output: join(folder, "repo", "m", "1", "model.plan"),
    isHalf: false,
    isInteger: false,
    shapes: { min: all, opt: all, max: all },
    reporter: new Reporter({ mode: "quiet", command: "trtexec" }),
    signal: new AbortController().signal,
    ...more,
  };
}

test("buildPlan() writes a model that says its shapes, and measures what its precision costs", async () => {
  const input = writeModel();
  const table: [Partial<PlanOptions>, number, number, number][] = [
    [{}, 0, 0, 0],
    [{ isHalf: true }, 0, 1, 0.01],
    [{ isInteger: true }, 1, 0, 0.5],
  ];
  for (const [more, numInteger, numHalf, largest] of table) {
    const asked = options(input, more);
    const summary = await buildPlan(asked);
    assert.deepEqual([summary.numInteger, summary.numHalf > 0 ? 1 : 0], [numInteger, numHalf]);
    const { max } = summary.errors.get("Y") ?? { max: Number.NaN };
    assert.ok(max <= largest && (largest === 0 || max > 0), `${max}`);
    const content = planContent(readFileSync(asked.output));
    assert.deepEqual(content.kind === "nereid" && content.note.max, { X: [2, 4, SIZE] });
    assert.deepEqual(readdirSync(join(asked.output, "..")), ["model.plan"]);
  }
});

test("buildPlan() takes weights along that lie beside the model", async () => {
  const input = join(mkdtempSync(join(folder, "model-")), "model.onnx");
  const weights = Float32Array.from({ length: SIZE * SIZE + 1 }, (_, index) => Math.cos(index));
  writeFileSync(join(input, "..", "weights.bin"), weights);
  const place = { location: "weights.bin", offset: "4" };
  const spec = {
    nodes: [node("MatMul", ["X", "W"], ["Y"])],
    initializers: [externalTensor("W", ONNX_TYPE.FLOAT, [SIZE, SIZE], place)],
    inputs: [["X", ONNX_TYPE.FLOAT, ["batch", 4, SIZE]]],
    outputs: [["Y", ONNX_TYPE.FLOAT, ["batch", 4, SIZE]]],
  } as const;
  writeFileSync(input, model(spec));
  const summary = await buildPlan(options(input, { output: join(folder, "beside", "model.plan"), isInteger: true }));
  assert.equal(summary.numInteger, 1);
  assert.ok(summary.bytesAfter < 4 * SIZE * SIZE && summary.bytesAfter > SIZE * SIZE);
  assert.ok((summary.errors.get("Y")?.cosine ?? 0) > 0.99);
});

test("buildPlan() refuses shapes that the model does not take, and leaves nothing behind", async () => {
  const input = writeModel();
  const output = join(folder, "refused", "model.plan");
  const table: [string, RegExp][] = [
    ["Z:1x4x32", /no input 'Z': it has X/],
    ["X:1x5x32", /'X' is \?x4x32 in the model, got 1x5x32/],
  ];
  for (const [shapes, message] of table) {
    await assert.rejects(buildPlan(options(input, { output }, shapes)), message);
  }
  assert.equal(existsSync(output), false);
});

test("buildPlan() stops between steps when it is interrupted, and keeps the engine that is there", async () => {
  const output = join(folder, "kept", "model.plan");
  await buildPlan(options(writeModel(), { output }));
  const before = readFileSync(output);
  const signal = AbortSignal.abort(new Error("stop"));
  await assert.rejects(buildPlan(options(writeModel(), { output, isHalf: true, signal })), /stop/);
  assert.deepEqual(readFileSync(output), before);
  assert.deepEqual(readdirSync(join(output, "..")), ["model.plan"]);
});

test("measurePlan() runs an engine and refuses any other file, naming the command", async () => {
  const output = join(folder, "measured", "model.plan");
  await buildPlan(options(writeModel(), { output }));
  const runs = { shapes: new Map(), warmUpMs: 0, durationMs: 0, minRuns: 3, signal: new AbortController().signal };
  const { numRuns, min, max } = await measurePlan({ ...runs, path: output });
  assert.equal(numRuns, 3);
  assert.ok(min > 0 && max >= min);
  const foreign = join(folder, "foreign.plan");
  writeFileSync(foreign, "ptrt and more");
  await assert.rejects(measurePlan({ ...runs, path: foreign }), (error) => {
    assert.match(String(error), /engine of NVIDIA TensorRT/);
    assert.match((error as { fix: string }).fix, /nereid trtexec --onnx=model\.onnx --saveEngine=.*foreign\.plan/);
    return true;
  });
});

test("latencyStatistics() orders the times of runs", () => {
  const times = Array.from({ length: 100 }, (_, index) => 100 - index);
  const { min, max, mean, median, p90, p99 } = latencyStatistics(times);
  assert.deepEqual([min, max, mean, median, p90, p99], [1, 100, 50.5, 51, 91, 100]);
});
