/**
 * INT4 GEMMs on a GPU against the decoded matrix, and their share of memory bandwidth. Sources: int4-linear.cu,
 * int4-wgmma.cu.
 */
import { linearRef } from "../linear/linear.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { downloadFloats, seededFloats, unreadInput, uploadRandom } from "../testing/cuda-check-data.ts";
import { type Int4CudaWeight, int4WorkspaceBytes, launchInt4Decode, launchInt4Linear } from "./int4-linear.cuda.ts";
import { int4WgmmaTileConfig, launchInt4Wgmma } from "./int4-wgmma.cuda.ts";
import { type Int4WgmmaTileConfig, type Int4WgmmaUse, int4WgmmaWorkspaceBytes } from "./int4-wgmma-plan.ts";
import { packInt4 } from "./pack-int4.ts";
import { dequantizeInt4, quantizeInt4 } from "./quantize-int4.ts";

interface Variant {
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
  readonly hasZeros: boolean;
  readonly hasBias: boolean;
}

const VARIANTS: readonly Variant[] = [
  { numRows: 1, outputs: 128, inputs: 4096, groupSize: 128, hasZeros: false, hasBias: false },
  { numRows: 7, outputs: 192, inputs: 1088, groupSize: 64, hasZeros: true, hasBias: true },
  { numRows: 16, outputs: 64, inputs: 2048, groupSize: 32, hasZeros: true, hasBias: false },
  { numRows: 29, outputs: 256, inputs: 1536, groupSize: 128, hasZeros: true, hasBias: true },
  { numRows: 64, outputs: 128, inputs: 512, groupSize: 512, hasZeros: false, hasBias: false },
];

interface GroupVariant extends Variant {
  readonly use?: Int4WgmmaUse;
  /** Overrides the plan. */
  readonly form?: Partial<Int4WgmmaTileConfig>;
}

const WGMMA_VARIANTS: readonly GroupVariant[] = [
  { numRows: 64, outputs: 1024, inputs: 2048, groupSize: 128, hasZeros: false, hasBias: false },
  { numRows: 9, outputs: 192, inputs: 1152, groupSize: 128, hasZeros: true, hasBias: true },
  {
    ...{ numRows: 24, outputs: 320, inputs: 1024, groupSize: 256, hasZeros: false, hasBias: true },
    form: { groups: 3, groupTiles: 2, splits: 1, weightStages: 12 },
  },
  {
    ...{ numRows: 33, outputs: 576, inputs: 640, groupSize: 128, hasZeros: true, hasBias: false },
    form: { groups: 2, groupTiles: 2, splits: 2, weightStages: 4 },
  },
  {
    ...{ numRows: 16, outputs: 512, inputs: 4096, groupSize: 4096, hasZeros: false, hasBias: false },
    form: { groups: 4, groupTiles: 1, splits: 8, weightStages: 8 },
  },
  { numRows: 40, outputs: 1280, inputs: 512, groupSize: 128, hasZeros: false, hasBias: false, use: "gated" },
  { numRows: 20, outputs: 384, inputs: 2048, groupSize: 128, hasZeros: true, hasBias: false, use: "parts" },
];

export const cudaChecks: readonly CudaCheck[] = [...VARIANTS.flatMap(plainChecks), ...WGMMA_VARIANTS.map(groupCheck)];

function groupCheck(variant: GroupVariant): CudaCheck {
  const { numRows, outputs, inputs, groupSize, hasZeros, use = "whole" } = variant;
  return {
    name: `int4-wgmma ${use} ${numRows} rows ${outputs} x ${inputs} groups of ${groupSize}${hasZeros ? " zeros" : ""}`,
    maxError: 5e-3,
    needsWgmma: true,
    run: (context: CudaCheckContext) => runGroup(context, variant),
  };
}

function plainChecks(variant: Variant): readonly CudaCheck[] {
  const { numRows, outputs, inputs, groupSize, hasZeros } = variant;
  const name = `${numRows} rows ${outputs} x ${inputs} groups of ${groupSize}${hasZeros ? " zeros" : ""}`;
  return [
    {
      name: `int4-linear ${name}`,
      maxError: 5e-3,
      run: (context: CudaCheckContext) => runLinear(context, variant),
    },
    { name: `int4-decode ${name}`, maxError: 4e-3, run: (context: CudaCheckContext) => runDecode(context, variant) },
  ];
}

function uploadWeight(
  context: CudaCheckContext,
  { outputs, inputs, groupSize, hasZeros }: Variant,
): { readonly weight: Int4CudaWeight; readonly values: Float32Array } {
  if (context.isRecording === true) {
    const { pointer, values } = unreadInput(context, outputs * inputs, outputs * inputs);
    const weight = { codes: pointer, scales: pointer, zeros: hasZeros ? pointer : undefined };
    return { weight: { ...weight, outputs, inputs, groupSize }, values };
  }
  const matrix = quantizeInt4(seededFloats(outputs * inputs, 1), inputs, { groupSize, hasZeros });
  const packed = packInt4(matrix);
  const weight = {
    codes: context.upload(packed.codes),
    scales: context.upload(packed.scales),
    zeros: packed.zeros && context.upload(packed.zeros),
    outputs,
    inputs,
    groupSize,
  };
  return { weight, values: dequantizeInt4(matrix) };
}

async function runLinear(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { numRows, outputs, inputs, hasBias } = variant;
  const { stream } = context;
  const { weight, values } = uploadWeight(context, variant);
  const x = uploadRandom(context, "bf16", numRows * inputs, 2);
  const bias = uploadRandom(context, "bf16", outputs, 3);
  const out = context.allocate(numRows * outputs * 2);
  const bytes = int4WorkspaceBytes(stream, numRows, outputs, inputs);
  const workspace = { counters: context.zeros(bytes.counters), partials: context.allocate(bytes.partials) };
  // The second launch finds the counters as the first left them.
  for (let round = 0; round < 2; round++) {
    const pointers = { x: x.pointer, weight, bias: hasBias ? bias.pointer : undefined, out };
    launchInt4Linear(stream, { ...pointers, numRows, ...workspace });
  }
  const result = await downloadFloats(context, "bf16", out, numRows * outputs);
  const withBias = hasBias ? { bias: bias.values } : {};
  const expected = linearRef({ x: x.values, weight: values, inputs, ...withBias });
  return relativeError(result, expected);
}

async function runGroup(context: CudaCheckContext, variant: GroupVariant): Promise<number> {
  const { numRows, outputs, inputs, hasBias, use = "whole" } = variant;
  const { weight, values } = uploadWeight(context, variant);
  const x = uploadRandom(context, "bf16", numRows * inputs, 2);
  const bias = uploadRandom(context, "bf16", outputs, 3);
  const outWidth = use === "gated" ? outputs / 2 : outputs;
  const out = context.allocate(numRows * outWidth * 2);
  const planned = int4WgmmaTileConfig({ arch: "sm_90a", numSms: context.stream.numSms }, numRows, variant, use);
  if (planned === undefined) throw new Error("the kernel is not written for this shape");
  const form = { ...planned, ...variant.form };
  const bytes = int4WgmmaWorkspaceBytes(outputs, form, numRows);
  const workspace = { counters: context.zeros(bytes.counters + 4), partials: context.allocate(bytes.partials + 4) };
  const gatedBy = use === "gated" ? ("silu" as const) : undefined;
  // The second launch finds the counters as the first left them.
  for (let round = 0; round < 2; round++) {
    const pointers = { x: x.pointer, weight, bias: hasBias ? bias.pointer : undefined, out };
    launchInt4Wgmma(
      context.stream,
      { ...pointers, numRows, ...workspace, gatedBy, keepsPartials: use === "parts" },
      form,
    );
  }
  const withBias = hasBias ? { bias: bias.values } : {};
  const sums = (): Float32Array => linearRef({ x: x.values, weight: values, inputs, ...withBias });
  if (use === "parts") {
    const parts = await downloadFloats(context, "f32", workspace.partials, form.splits * numRows * outputs);
    return relativeError(splitKPartials(parts, form.splits), sums());
  }
  const result = await downloadFloats(context, "bf16", out, numRows * outWidth);
  return relativeError(result, use === "gated" ? gated(sums(), outWidth) : sums());
}

function splitKPartials(parts: Float32Array, count: number): Float32Array {
  const length = parts.length / count;
  return Float32Array.from({ length }, (_, i) => {
    let sum = 0;
    for (let part = 0; part < count; part++) sum += parts[part * length + i] ?? Number.NaN;
    return sum;
  });
}

function gated(sums: Float32Array, width: number): Float32Array {
  return Float32Array.from({ length: sums.length / 2 }, (_, i) => {
    const at = Math.floor(i / width) * 2 * width + (i % width);
    const gate = sums[at] ?? Number.NaN;
    return (gate / (1 + Math.exp(-gate))) * (sums[at + width] ?? Number.NaN);
  });
}

async function runDecode(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { weight, values } = uploadWeight(context, variant);
  const out = context.allocate(values.length * 2);
  launchInt4Decode(context.stream, weight, out);
  return relativeError(await downloadFloats(context, "bf16", out, values.length), values);
}

/** The four GEMMs of a layer of an 8B model; weights rotate, so that none stays in the L2 cache. */
