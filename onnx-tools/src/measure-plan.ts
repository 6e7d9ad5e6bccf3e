/** Measures the latency of a model in sequential runs, like trtexec. */
import type { Tensor } from "@nereid/server/core/tensor";
import { ToolError } from "@nereid/server/files/tool-error";
import { readPlan } from "@nereid/server/formats/onnx/plan-file";
import type { OnnxSession } from "@nereid/server/native/onnxruntime/session";
import { randomInputs } from "./build-plan.ts";
import { readOnnxFile } from "./model-files.ts";
import { idLimits, type Shapes } from "./model-inputs.ts";
import { ModelOpener } from "./sessions.ts";
import { expectShapes } from "./shapes.ts";

export interface MeasureOptions {
  readonly path: string;
  /** By input; default: the optimal shapes of the file. */
  readonly shapes: Shapes;
  readonly warmUpMs: number;
  readonly durationMs: number;
  readonly minRuns: number;
  readonly signal: AbortSignal;
}

/** In ms, except for counts. */
export interface Latency {
  readonly numRuns: number;
  readonly runsPerSecond: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly median: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
}

/** @throws ToolError when the file is not from `nereid trtexec` */
export async function measurePlan(options: MeasureOptions): Promise<Latency> {
  const content = await readPlan(options.path).catch((cause: unknown) => {
    throw new ToolError(`Cannot read ${options.path}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  });
  if (content.kind !== "nereid") throw wrongPlan(options.path, content.kind);
  const shapes = new Map([...Object.entries(content.note.opt), ...options.shapes]);
  using opener = new ModelOpener();
  const limits = idLimits(await readOnnxFile(options.path));
  const session = await opener.open(options.path, 99);
  try {
    expectShapes("--shapes", options.shapes, session.info.inputs);
    return latencyStatistics(await runTimes(session, randomInputs(session, shapes, limits), options));
  } finally {
    await session.close();
  }
}

function wrongPlan(path: string, kind: "nvidia" | "other"): ToolError {
  const what = kind === "nvidia" ? "an engine of NVIDIA TensorRT, which only NVIDIA's runtime reads" : "no engine";
  return new ToolError(`${path} is ${what}`, {
    fix: `Build one from the ONNX model: nereid trtexec --onnx=model.onnx --saveEngine=${path}`,
  });
}

async function runTimes(
  session: OnnxSession,
  inputs: readonly Tensor[],
  { warmUpMs, durationMs, minRuns, signal }: MeasureOptions,
): Promise<readonly number[]> {
  const outputs = session.info.outputs.map(({ name }) => ({ name }));
  const times: number[] = [];
  const startMs = performance.now();
  for (;;) {
    signal.throwIfAborted();
    const beginMs = performance.now();
    const isDone = beginMs - startMs >= warmUpMs + durationMs && times.length >= minRuns;
    if (isDone && times.length > 0) return times;
    await session.runAsync(inputs, outputs).outputs;
    if (beginMs - startMs >= warmUpMs) times.push(performance.now() - beginMs);
  }
}

/** Statistics of at least one time. */
export function latencyStatistics(times: readonly number[]): Latency {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  const total = sorted.reduce((sum, time) => sum + time, 0);
  return {
    numRuns: sorted.length,
    runsPerSecond: total === 0 ? 0 : (1000 * sorted.length) / total,
    min: at(0),
    max: at(1),
    mean: total / sorted.length,
    median: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
  };
}
