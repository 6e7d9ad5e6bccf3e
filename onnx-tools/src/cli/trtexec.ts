/**
 * `nereid trtexec`: takes the flags of TensorRT's trtexec, builds a model for platform tensorrt_plan, and measures it.
 */

import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { type CommandContext, runCommand } from "@nereid/server/cli/run-command";
import { formatBytes } from "@nereid/server/files/progress-text";
import { buildPlan, type PlanSummary } from "../build-plan.ts";
import { type Latency, measurePlan } from "../measure-plan.ts";
import { parseShapes, shown } from "../shapes.ts";
import { errorLines } from "./onnx-quantize.ts";
import { TRTEXEC_NOTED } from "./trtexec-ignored.ts";

/** Has a warning of its own. */
const OTHER_TYPE = { type: "switch", hidden: true, summary: "has no effect" } as const;
const SHAPES = { type: "string", value: "NAME:1x3x224x224,…" } as const;

const FLAGS = {
  onnx: { type: "string", value: "FILE", summary: "the ONNX model" },
  saveEngine: { type: "string", value: "FILE", summary: "file for the engine, e.g. repo/text_encoder/1/model.plan" },
  loadEngine: { type: "string", value: "FILE", summary: "measure an existing engine, instead of --onnx" },
  fp16: { type: "switch", summary: "keep weights in FP16; computes in float32" },
  int8: { type: "switch", summary: "INT8 matrix products, activations quantized in each run: no calibration" },
  best: { type: "switch", summary: "--fp16 and --int8" },
  minShapes: { ...SHAPES, summary: "smallest shapes to serve" },
  optShapes: { ...SHAPES, summary: "shapes to measure" },
  maxShapes: { ...SHAPES, summary: "largest shapes to serve" },
  shapes: { ...SHAPES, summary: "all three at once; with --loadEngine: the shapes to measure" },
  skipInference: { type: "switch", summary: "do not measure", aliases: ["buildOnly"] },
  warmUp: { type: "number", default: 200, min: 0, value: "MS", summary: "run this long before measuring" },
  duration: { type: "number", default: 3, min: 0, value: "S", summary: "measure this long" },
  iterations: { type: "integer", default: 10, min: 1, summary: "and run at least N times" },
  bf16: OTHER_TYPE,
  fp8: OTHER_TYPE,
  ...TRTEXEC_NOTED,
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "trtexec",
  description:
    "Optimises an ONNX model and writes it as the model.plan that platform tensorrt_plan serves; then measures it. Flags of NVIDIA's trtexec that choose GPU kernels are accepted without effect.",
  flags: FLAGS,
  examples: [
    "nereid trtexec --onnx=onnx/model.onnx --saveEngine=repo/text_encoder/1/model.plan --fp16 --minShapes=input_ids:1x1,attention_mask:1x1,token_type_ids:1x1 --optShapes=input_ids:8x64,attention_mask:8x64,token_type_ids:8x64 --maxShapes=input_ids:32x256,attention_mask:32x256,token_type_ids:32x256",
    "nereid trtexec --loadEngine=repo/text_encoder/1/model.plan",
  ],
};

type Context = CommandContext<typeof FLAGS>;

export async function trtexecCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async (context) => {
    const { values, reporter } = context as Context;
    if ((values.onnx === undefined) === (values.loadEngine === undefined)) {
      throw new UsageError("give --onnx=model.onnx to build an engine, or --loadEngine=model.plan to measure one");
    }
    warnOfTypes(context as Context);
    const summary = values.onnx === undefined ? undefined : await build(values.onnx, context as Context);
    const path = values.loadEngine ?? values.saveEngine ?? "";
    const latency = values.skipInference ? undefined : await measure(path, context as Context);
    const lines = [
      ...(summary === undefined ? [] : summaryLines(path, summary)),
      ...(latency === undefined ? [] : latencyLines(latency)),
    ];
    reporter.result(lines.join("\n"), resultFields(path, summary, latency));
  });
}

function warnOfTypes({ values, reporter }: Context): void {
  for (const type of ["bf16", "fp8"] as const) {
    if (values[type]) reporter.warn(`--${type} has no effect: --fp16 and --int8 make weights smaller`);
  }
}

async function build(onnx: string, { values, reporter, signal }: Context): Promise<PlanSummary> {
  const { saveEngine } = values;
  if (saveEngine === undefined) throw new UsageError("--saveEngine=model.plan is missing: the file for the engine");
  const all = parseShapes("--shapes", values.shapes);
  const shapesOf = (flag: "minShapes" | "optShapes" | "maxShapes") =>
    new Map([...all, ...parseShapes(`--${flag}`, values[flag])]);
  return buildPlan({
    input: onnx,
    output: saveEngine,
    isHalf: values.fp16 || values.best,
    isInteger: values.int8 || values.best,
    shapes: { min: shapesOf("minShapes"), opt: shapesOf("optShapes"), max: shapesOf("maxShapes") },
    reporter,
    signal,
  });
}

async function measure(path: string, { values, reporter, signal }: Context): Promise<Latency> {
  reporter.info(`Measuring ${path} for ${values.duration} s`);
  return measurePlan({
    path,
    shapes: values.loadEngine === undefined ? new Map() : parseShapes("--shapes", values.shapes),
    warmUpMs: values.warmUp,
    durationMs: 1000 * values.duration,
    minRuns: values.iterations,
    signal,
  });
}

function summaryLines(path: string, summary: PlanSummary): string[] {
  const { bytesBefore, bytesAfter, numHalf, numInteger, profile, errors } = summary;
  const inputs = [...profile.min.keys()].map((name) => {
    const sizes = [profile.min, profile.opt, profile.max].map((shapes) => shown(shapes.get(name) ?? []));
    return `  ${name}: ${sizes.join(" <= ")}`;
  });
  const kept = [
    ...(numInteger > 0 ? [`${numInteger} matrix products in int8`] : []),
    ...(numHalf > 0 ? [`${numHalf} weights in fp16`] : []),
  ];
  const how = kept.length === 0 ? "" : `, ${kept.join(", ")}`;
  return [
    `Wrote ${path}: ${formatBytes(bytesBefore)} -> ${formatBytes(bytesAfter)}${how}`,
    ...inputs,
    ...errorLines(errors),
  ];
}

/** In trtexec's wording, which scripts parse. */
function latencyLines(latency: Latency): string[] {
  const ms = (value: number): string => `${value.toPrecision(5)} ms`;
  const percentiles = [
    ["90", latency.p90],
    ["95", latency.p95],
    ["99", latency.p99],
  ] as const;
  const shares = percentiles.map(([share, value]) => `percentile(${share}%) = ${ms(value)}`).join(", ");
  return [
    `Throughput: ${latency.runsPerSecond.toPrecision(5)} qps`,
    `Latency: min = ${ms(latency.min)}, max = ${ms(latency.max)}, mean = ${ms(latency.mean)}, median = ${ms(latency.median)}, ${shares}`,
  ];
}

function resultFields(
  path: string,
  summary: PlanSummary | undefined,
  latency: Latency | undefined,
): Record<string, unknown> {
  return {
    engine: path,
    ...(summary && {
      bytes_before: summary.bytesBefore,
      bytes_after: summary.bytesAfter,
      errors: Object.fromEntries(summary.errors),
    }),
    ...(latency && { latency_ms: latency }),
  };
}
