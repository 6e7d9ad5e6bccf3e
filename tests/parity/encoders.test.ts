/** Exported encoders against what Hugging Face transformers computed with the same weights (see record_encoders.py). */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { exportOnnx } from "../../onnx-tools/src/export-onnx.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { Reporter } from "../../server/src/files/progress.ts";
import { OnnxRuntime } from "../../server/src/native/onnxruntime/onnxruntime.ts";

const ENCODERS = fileURLToPath(new URL("encoders/", import.meta.url));
const TOLERANCE = 1e-4;

interface RecordedArray {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

interface RecordedCase {
  readonly part: "text" | "vision";
  readonly inputs: Readonly<Record<string, RecordedArray>>;
  readonly outputs: Readonly<Record<string, RecordedArray>>;
}

const folder = mkdtempSync(join(tmpdir(), "nereid-encoders-"));
after(() => rmSync(folder, { recursive: true }));
const runtime = new OnnxRuntime({ isVerbose: false });

function inputTensor([name, { shape, data }]: [string, RecordedArray]): Tensor {
  const isFloat = name === "pixel_values";
  const values = isFloat ? Float32Array.from(data) : BigInt64Array.from(data, BigInt);
  return { name, shape, datatype: isFloat ? "FP32" : "INT64", data: new Uint8Array(values.buffer) };
}

function maxDifference(got: Tensor, expected: readonly number[]): number {
  const values = new Float32Array(Uint8Array.from(got.data).buffer);
  assert.equal(values.length, expected.length, got.name);
  return values.reduce((most, value, index) => Math.max(most, Math.abs(value - (expected[index] ?? Number.NaN))), 0);
}

async function runExported(name: string, recorded: RecordedCase, isExternal: boolean): Promise<readonly Tensor[]> {
  const outputDir = mkdtempSync(join(folder, "out-"));
  const [file] = await exportOnnx({
    modelDir: join(ENCODERS, name),
    outputDir,
    part: recorded.part,
    pooling: "mean",
    hasAttentionMask: "attention_mask" in recorded.inputs,
    isExternal,
    isForced: false,
    reporter: new Reporter({ mode: "quiet", command: "onnx export" }),
    signal: new AbortController().signal,
  });
  const session = await runtime.createSession(file?.path ?? "", {
    graphLevel: 99,
    isParallel: false,
    intraOpThreads: 1,
    interOpThreads: 1,
    config: new Map(),
    runConfig: new Map(),
    customOpLibraries: [],
  });
  const outputs = session.run(
    Object.entries(recorded.inputs).map(inputTensor),
    Object.keys(recorded.outputs).map((output) => ({ name: output })),
  );
  await session.close();
  return outputs;
}

for (const name of readdirSync(ENCODERS)) {
  const cases: RecordedCase[] = JSON.parse(readFileSync(join(ENCODERS, name, "expected.json"), "utf8"));
  for (const recorded of cases) {
    const title = `${name} (${Object.keys(recorded.inputs).join(", ")})`;
    test(`exportOnnx() of ${title} computes what transformers computes`, async () => {
      for (const isExternal of [false, true]) {
        const outputs = await runExported(name, recorded, isExternal);
        for (const output of outputs) {
          const { shape, data } = recorded.outputs[output.name] ?? { shape: [], data: [] };
          assert.deepEqual([...output.shape], shape, output.name);
          const difference = maxDifference(output, data);
          assert.ok(difference <= TOLERANCE, `${output.name} differs by ${difference}`);
        }
      }
    });
  }
}
