/**
 * Builds `model.plan`: an ONNX file, optimised by ONNX Runtime, for platform tensorrt_plan. Command-line counterpart:
 * TensorRT's trtexec. It knows no command line.
 */
import { resolve } from "node:path";
import type { Tensor } from "@nereid/server/core/tensor";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import {
  PLAN_FORMAT_VERSION,
  type PlanNote,
  planNoteParts,
  type SizesByInput,
} from "@nereid/server/formats/onnx/plan-file";
import type { OnnxSession } from "@nereid/server/native/onnxruntime/session";
import { compareModels } from "./compare-models.ts";
import type { ErrorSum } from "./error-totals.ts";
import { convertToFp16 } from "./fp16-graph.ts";
import { inlineData } from "./inline-data.ts";
import { readOnnxFile, writeDocument } from "./model-files.ts";
import { idLimits, randomInput, randomNumbers, type Shapes } from "./model-inputs.ts";
import { MAX_MODEL_BYTES, makeFile, modelBytes, weightsFor } from "./onnx-output.ts";
import { exactWeights } from "./processor.ts";
import { quantizedDocument } from "./quantize-onnx.ts";
import { dataBeside, ModelOpener } from "./sessions.ts";
import { completeProfile, expectShapes, type OptimizationProfile, shown } from "./shapes.ts";

export interface PlanOptions {
  readonly input: string;
  readonly output: string;
  readonly isHalf: boolean;
  readonly isInteger: boolean;
  /** As given; missing ones are completed. */
  readonly shapes: OptimizationProfile;
  /** Maximum bytes of one file, beyond which weights are stored externally; default: protobuf's limit. */
  readonly maxFileBytes?: number | undefined;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface PlanSummary {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly profile: OptimizationProfile;
  readonly numInteger: number;
  readonly numHalf: number;
  /** Difference to the original at the optimal shapes, by output. */
  readonly errors: ReadonlyMap<string, ErrorSum>;
}

/** Passes of every build: simplify, optimize, check. */
const STEPS = 3;

export async function buildPlan(options: PlanOptions): Promise<PlanSummary> {
  const { input, output, reporter } = options;
  if (resolve(input) === resolve(output)) {
    throw new ToolError(`${output} is the model itself`, { fix: "Name another file as --saveEngine" });
  }
  const bytesBefore = await modelBytes(input);
  const { maxFileBytes = MAX_MODEL_BYTES } = options;
  const isLarge = bytesBefore > maxFileBytes;
  await requireFreeBytes(output, 3 * bytesBefore);
  using opener = new ModelOpener();
  const profile = await checkedProfile(opener, options);
  const task = reporter.startTask({ task: "build", unit: "steps", total: STEPS + (options.isInteger ? 1 : 0) });
  let built: Omit<PlanSummary, "bytesBefore" | "profile"> | undefined;
  try {
    await makeFile(output, async (scratch) => {
      const inline = isLarge ? input : await inlineData(input, scratch, options.signal);
      const step = (name: string): string => {
        options.signal.throwIfAborted();
        task.add(1, name);
        return scratch();
      };
      const { path, ...rest } = await buildSteps(opener, { ...options, inline, isLarge, maxFileBytes }, profile, step);
      built = rest;
      return path;
    });
  } finally {
    task.end();
  }
  if (built === undefined) throw new Error("the file was made without a summary");
  return { bytesBefore, profile, ...built };
}

async function checkedProfile(opener: ModelOpener, { input, shapes }: PlanOptions): Promise<OptimizationProfile> {
  const session = await opener.open(input, 0);
  try {
    const { inputs } = session.info;
    expectShapes("--minShapes", shapes.min, inputs);
    expectShapes("--optShapes", shapes.opt, inputs);
    expectShapes("--maxShapes", shapes.max, inputs);
    return completeProfile(shapes, inputs);
  } finally {
    await session.close();
  }
}

async function buildSteps(
  opener: ModelOpener,
  options: PlanOptions & { readonly inline: string; readonly isLarge: boolean; readonly maxFileBytes: number },
  profile: OptimizationProfile,
  step: (name: string) => string,
): Promise<Omit<PlanSummary, "bytesBefore" | "profile"> & { readonly path: string }> {
  const { input, inline, isLarge, maxFileBytes, signal } = options;
  const plain = step("simplify");
  await (await opener.open(inline, 1, { path: plain, isLarge })).close();
  const limits = idLimits(await readOnnxFile(plain));
  const { path: source, numMatmuls } = options.isInteger
    ? await quantizeFile(plain, step("quantize"), options, maxFileBytes)
    : { path: plain, numMatmuls: 0 };
  const optimized = step("optimize");
  await (await opener.open(source, 2, { path: optimized, isLarge })).close();
  const document = await readOnnxFile(optimized);
  const { document: kept, numHalved } = options.isHalf ? convertToFp16(document) : { document, numHalved: 0 };
  const path = step("check");
  const front = planNoteParts(noteOf(options, profile));
  const place = { path, dataPath: weightsFor(options.output), maxBytes: maxFileBytes, front };
  const bytesAfter = await writeDocument(kept, place, signal);
  const errors = await tryPlan(opener, { input, path, limits, profile }, signal);
  return { path, bytesAfter, numInteger: numMatmuls, numHalf: numHalved, errors };
}

async function quantizeFile(
  from: string,
  path: string,
  { reporter, signal }: PlanOptions,
  maxBytes: number,
): Promise<{ path: string; numMatmuls: number }> {
  const { document, numMatmuls } = quantizedDocument(await readOnnxFile(from), {
    type: exactWeights(),
    isReduced: false,
    reporter,
    signal,
  });
  await writeDocument(document, { path, dataPath: dataBeside(path), maxBytes }, signal);
  return { path, numMatmuls };
}

function noteOf({ isHalf, isInteger }: PlanOptions, { min, opt, max }: OptimizationProfile): PlanNote {
  const plain = (shapes: Shapes): SizesByInput => Object.fromEntries(shapes);
  const precision = ["fp32", ...(isHalf ? ["fp16"] : []), ...(isInteger ? ["int8"] : [])];
  return { formatVersion: PLAN_FORMAT_VERSION, precision, min: plain(min), opt: plain(opt), max: plain(max) };
}

interface Trial {
  readonly input: string;
  readonly path: string;
  readonly limits: ReadonlyMap<string, number>;
  readonly profile: OptimizationProfile;
}

/** Runs the result at its smallest and largest shapes, and compares it with the original at the optimal ones. */
async function tryPlan(
  opener: ModelOpener,
  { input, path, limits, profile }: Trial,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ErrorSum>> {
  const plan = await opener.open(path, 99);
  try {
    for (const [flag, shapes] of [
      ["--minShapes", profile.min],
      ["--maxShapes", profile.max],
    ] as const) {
      signal.throwIfAborted();
      await runOnce(flag, plan, randomInputs(plan, shapes, limits));
    }
    const original = await opener.open(input, 99);
    const samples = [randomInputs(original, profile.opt, limits)];
    return await compareModels(original, plan, samples, signal).finally(() => original.close());
  } finally {
    await plan.close();
  }
}

async function runOnce(flag: string, session: OnnxSession, inputs: readonly Tensor[]): Promise<void> {
  const outputs = session.info.outputs.map(({ name }) => ({ name }));
  await session.runAsync(inputs, outputs).outputs.catch((cause: unknown) => {
    const shapes = inputs.map(({ name, shape }) => `${name}:${shown(shape)}`).join(",");
    const reason = (cause instanceof Error ? cause.message : String(cause)).trim();
    throw new ToolError(`The model does not run with ${flag}=${shapes}: ${reason}`, {
      cause,
      fix: `Give ${flag} that the model takes`,
    });
  });
}

export function randomInputs(
  { info }: OnnxSession,
  shapes: Shapes,
  limits: ReadonlyMap<string, number>,
): readonly Tensor[] {
  const random = randomNumbers(0);
  return info.inputs.map((value) =>
    randomInput(value, shapes.get(value.name) ?? value.dims, limits.get(value.name), random),
  );
}
