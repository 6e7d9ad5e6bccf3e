/**
 * Mixture of experts on a GPU: routing with lists, grouped GEMMs in each kernel, and the weighted sum, each against its
 * reference. Choices fall evenly, or all to one expert and none to others; scales have outliers. Sources: expert-tiles.cu,
 * expert-skinny.cu, expert-wgmma.cu, route-experts.cu, mix-experts.cu.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { expertLinearRef } from "../expert-linear/expert-linear.ref.ts";
import { launchMixExperts } from "../mix-experts/mix-experts.cuda.ts";
import { mixExpertsRef } from "../mix-experts/mix-experts.ref.ts";
import { type ExpertLists, launchRouteExperts } from "../route-experts/route-experts.cuda.ts";
import { routeExpertsRef } from "../route-experts/route-experts.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError, shareOfDifferences } from "../testing/cuda-check.ts";
import {
  type CheckInput,
  downloadFloats,
  seededFloats,
  seededInts,
  seededOrder,
  unreadInput,
  uploadFloats,
  uploadRandom,
} from "../testing/cuda-check-data.ts";
import { fromElements, toElements } from "../testing/cuda-elements.ts";
import { launchExpertGemm } from "./expert-gemm.cuda.ts";
import { gatedRef, interleavedCodes, withExpertBiases } from "./expert-gemm.ref.ts";
import type { ExpertGemmPlan, ExpertWeightType } from "./expert-plan.ts";
import { packMxfp4, packMxfp4Scales } from "./pack-mxfp4.ts";

/** How choices fall: evenly, or one of each token to the last expert and none to the first. */
type Spread = "even" | "one";

interface Variant {
  readonly weightType: ExpertWeightType;
  readonly numTokens: number;
  readonly numExperts: number;
  readonly numChosen: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly spread: Spread;
  /** true: SiLU. */
  readonly isGated?: boolean | typeof CLAMP;
  readonly hasBias?: boolean;
  readonly plan?: ExpertGemmPlan;
}

const SHAPE = { numExperts: 8, numChosen: 2, inputs: 256, outputs: 128, spread: "even" } as const;
const CLAMP = { alpha: 1.702, limit: 0.8 } as const;
const SKINNY = { kernel: "skinny", rows: 8, tiles: 1 } as const;
const WGMMA = { kernel: "wgmma", rows: 16, groups: 2, groupTiles: 2, weightStages: 12, rowStages: 4 } as const;

const VARIANTS: readonly Variant[] = [
  ...(["bf16", "e4m3"] as const).flatMap((weightType): readonly Variant[] => [
    { ...SHAPE, weightType, numTokens: 1, plan: SKINNY, isGated: true },
    { ...SHAPE, weightType, numTokens: 5, plan: { ...SKINNY, tiles: 2 }, hasBias: true, inputs: 1280 },
    { ...SHAPE, weightType, numTokens: 16, plan: { ...SKINNY, rows: 16 }, spread: "one" },
    { ...SHAPE, weightType, numTokens: 33, plan: { ...SKINNY, rows: 16, tiles: 2 }, spread: "one", isGated: true },
    { ...SHAPE, weightType, numTokens: 9, plan: { kernel: "tiles", rows: 8 }, inputs: 208, outputs: 104 },
    {
      ...SHAPE,
      weightType,
      numTokens: 33,
      plan: { kernel: "tiles", rows: 16 },
      isGated: true,
      inputs: 208,
      outputs: 80,
    },
    { ...SHAPE, weightType, numTokens: 40, plan: { kernel: "tiles", rows: 32 }, spread: "one", hasBias: true },
    { ...SHAPE, weightType, numTokens: 150, numExperts: 4, plan: { kernel: "tiles", rows: 64 }, isGated: true },
    ...[16, 32, 64, 128].flatMap((rows): readonly Variant[] => [
      { ...SHAPE, weightType, numTokens: 3 * rows + 1, plan: { ...WGMMA, rows }, spread: "one", isGated: true },
      {
        ...SHAPE,
        weightType,
        numTokens: 2 * rows,
        plan: { ...WGMMA, rows },
        inputs: 1024,
        outputs: 392,
        hasBias: true,
      },
    ]),
    { ...SHAPE, weightType, numTokens: 50, plan: { ...WGMMA, groups: 1 }, outputs: 200, isGated: CLAMP, hasBias: true },
    { ...SHAPE, weightType, numTokens: 50, plan: { ...WGMMA, rows: 32 }, inputs: 464, outputs: 72, isGated: true },
    { ...SHAPE, weightType, numTokens: 1, plan: WGMMA, isGated: true },
    // Lines of results that are not aligned. Codes come in rows of multiples of 16.
    ...(weightType === "bf16"
      ? [{ ...SHAPE, weightType, numTokens: 40, plan: WGMMA, outputs: 203, hasBias: true }]
      : []),
    { ...SHAPE, weightType, numTokens: 7, plan: SKINNY, inputs: 720, outputs: 48, isGated: CLAMP, hasBias: true },
    { ...SHAPE, weightType, numTokens: 40, plan: { kernel: "tiles", rows: 16 }, isGated: CLAMP, hasBias: true },
    { ...SHAPE, weightType, numTokens: 50, plan: { ...WGMMA, groups: 1, groupTiles: 1 }, numExperts: 60, inputs: 640 },
    {
      ...SHAPE,
      weightType,
      numTokens: 300,
      plan: { ...WGMMA, groupTiles: 1, rows: 64 },
      numExperts: 40,
      outputs: 1024,
    },
    { ...SHAPE, weightType, numTokens: 64, numExperts: 32, numChosen: 8, outputs: 1536, inputs: 512, isGated: true },
  ]),
];

const MXFP4_WGMMA = { ...WGMMA, weightStages: 8, rowStages: 2 } as const;

const MXFP4: readonly Variant[] = [
  { ...SHAPE, numTokens: 1, plan: SKINNY, isGated: CLAMP, hasBias: true },
  { ...SHAPE, numTokens: 7, plan: { ...SKINNY, tiles: 2 } as const, inputs: 2080, spread: "one" as const },
  { ...SHAPE, numTokens: 20, plan: { kernel: "tiles", rows: 8 } as const, inputs: 160, outputs: 104 },
  { ...SHAPE, numTokens: 33, plan: { kernel: "tiles", rows: 32 } as const, isGated: CLAMP, hasBias: true, inputs: 352 },
  ...[16, 32, 64, 128].flatMap((rows): readonly Omit<Variant, "weightType">[] => [
    { ...SHAPE, numTokens: 3 * rows + 1, plan: { ...MXFP4_WGMMA, rows }, spread: "one", isGated: CLAMP, hasBias: true },
    { ...SHAPE, numTokens: 2 * rows, plan: { ...MXFP4_WGMMA, rows }, inputs: 1120, outputs: 392, hasBias: true },
  ]),
  {
    ...SHAPE,
    numTokens: 50,
    plan: { ...MXFP4_WGMMA, groups: 1, groupTiles: 1, rows: 16 },
    numExperts: 60,
    inputs: 640,
  },
  { ...SHAPE, numTokens: 90, numExperts: 4, outputs: 192, inputs: 2880, isGated: CLAMP, hasBias: true },
  // More units of work than an H100 has SMs, the last of them behind the matrices.
  {
    ...SHAPE,
    numTokens: 150,
    numExperts: 40,
    numChosen: 4,
    plan: { ...WGMMA, rows: 32, weightStages: 13, rowStages: 6 },
    inputs: 576,
    outputs: 320,
    isGated: CLAMP,
    hasBias: true,
  },
].map((variant) => ({ ...variant, weightType: "mxfp4" }) as const);

export const cudaChecks: readonly CudaCheck[] = [
  ...(["f32", "bf16"] as const).flatMap((type) =>
    [true, false].map((isRenormalized) => ({
      name: `route-experts ${type}${isRenormalized ? " renormalized" : " biased"} lists`,
      maxError: 1e-5,
      run: (context: CudaCheckContext) => runRoute(context, type, isRenormalized),
    })),
  ),
  ...[...VARIANTS, ...MXFP4].map((variant) => ({
    name: nameOf(variant),
    maxError: 5e-3,
    needsWgmma: variant.plan === undefined || variant.plan.kernel === "wgmma",
    shows: [variant.weightType],
    run: (context: CudaCheckContext) => runLinear(context, variant),
  })),
  { name: "mix-experts bf16 empties lists", maxError: 5e-3, run: runMix },
];

function nameOf(variant: Variant): string {
  const { weightType, numTokens, numExperts, numChosen, inputs, outputs, spread, plan } = variant;
  const kernel = plan === undefined ? "planned" : `${plan.kernel} ${plan.rows}`;
  const options = [
    variant.isGated === undefined ? "" : variant.isGated === true ? " gated" : " clamped",
    variant.hasBias === true ? " biased" : "",
  ].join("");
  const tiles = plan !== undefined && "groups" in plan ? ` ${plan.groups} x ${plan.groupTiles}` : "";
  const shape = `${numTokens} tokens, ${numChosen} of ${numExperts}, ${outputs} x ${inputs}`;
  return `expert-gemm ${weightType} ${kernel}${tiles} ${shape} ${spread}${options}`;
}

async function runRoute(context: CudaCheckContext, type: ElemType, isRenormalized: boolean): Promise<number> {
  const [numTokens, numExperts, numChosen] = [37, 60, 8];
  const logits = uploadRandom(context, type, numTokens * numExperts, 1, 4);
  const bias = uploadRandom(context, type, numExperts, 2);
  const count = numTokens * numChosen;
  const out = { ids: context.allocate(count * 4), weights: context.allocate(count * 4) };
  const lists = { counts: context.zeros(4 * numExperts), order: context.allocate(4 * numExperts * numTokens) };
  const shape = { numTokens, numExperts, numChosen, isRenormalized };
  const added = isRenormalized ? undefined : bias.pointer;
  launchRouteExperts(context.stream, { type, logits: logits.pointer, bias: added, ...out, lists, ...shape });
  const ids = new Int32Array(count);
  await context.download(out.ids, ids);
  const weights = await downloadFloats(context, "f32", out.weights, count);
  const sums = isRenormalized ? logits.values : logits.values.map((x, i) => x + (bias.values[i % numExperts] ?? 0));
  const expected = routeExpertsRef({ logits: sums, numExperts, numChosen, isRenormalized });
  return Math.max(
    shareOfDifferences(ids, expected.ids),
    relativeError(weights, expected.weights),
    await shareOutsideLists(context, lists, ids, { numExperts, numTokens }),
  );
}

/** Share of the choices that are not once in the list of their expert, in any order. */
async function shareOutsideLists(
  context: CudaCheckContext,
  { counts, order }: ExpertLists,
  ids: Int32Array,
  { numExperts, numTokens }: { readonly numExperts: number; readonly numTokens: number },
): Promise<number> {
  const lengths = new Int32Array(numExperts);
  const listed = new Int32Array(numExperts * numTokens);
  await context.download(counts, lengths);
  await context.download(order, listed);
  const found = Array.from(lengths, (length, expert) =>
    [...listed.subarray(expert * numTokens, expert * numTokens + length)].sort((a, b) => a - b),
  );
  const expected = Array.from(lengths, (_, expert) => [...ids.keys()].filter((choice) => ids[choice] === expert));
  return shareOfDifferences(found.flat(), expected.flat());
}

/** Distinct experts for each token. */
function choose({ numTokens, numExperts, numChosen, spread }: Variant): Int32Array {
  const ids = Array.from({ length: numTokens }, (_, token) => {
    const order = [...seededOrder(numExperts, token + 1)];
    if (spread === "even") return order.slice(0, numChosen);
    const last = numExperts - 1;
    return [last, ...order.filter((id) => id !== last && id !== 0)].slice(0, numChosen);
  });
  return Int32Array.from(ids.flat());
}

/** Lists as the router leaves them, in an order of the seed. */
function uploadLists(context: CudaCheckContext, ids: Int32Array, { numExperts, numTokens }: Variant): ExpertLists {
  const counts = new Int32Array(numExperts);
  const order = new Int32Array(numExperts * numTokens).fill(-1);
  for (const choice of seededOrder(ids.length, 3)) {
    const expert = ids[choice] ?? 0;
    order[expert * numTokens + (counts[expert] ?? 0)] = choice;
    counts[expert] = (counts[expert] ?? 0) + 1;
  }
  return { counts: context.upload(counts), order: context.upload(order) };
}

const OUTLIER_STEP = 7;
const OUTLIER = 1000;
const CODE_SPREAD = 400;

/** The stored matrices, and the numbers that they stand for. */
function uploadWeights(
  context: CudaCheckContext,
  weightType: Variant["weightType"],
  numRows: number,
  inputs: number,
): CheckInput & { readonly scales: bigint | undefined } {
  if (context.isRecording === true && (weightType === "mxfp4" || weightType === "e4m3")) {
    return { ...unreadInput(context, numRows * inputs, numRows * inputs), scales: context.allocate(numRows * inputs) };
  }
  if (weightType === "mxfp4") return uploadMxfp4(context, numRows, inputs);
  if (weightType !== "e4m3") return { ...uploadRandom(context, weightType, numRows * inputs, 3), scales: undefined };
  const stored = toElements("e4m3", seededFloats(numRows * inputs, 3, CODE_SPREAD));
  const scales = uploadFloats(
    context,
    "f32",
    seededFloats(numRows, 5, 1 / CODE_SPREAD).map((scale, row) => (row % OUTLIER_STEP === 0 ? OUTLIER * scale : scale)),
  );
  const values = fromElements("e4m3", stored).map((code, i) => code * (scales.values[Math.floor(i / inputs)] ?? 0));
  return { pointer: context.upload(interleavedCodes(new Uint8Array(stored))), values, scales: scales.pointer };
}

const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

/** Random codes; scales around one with outliers in the columns that errorOfColumns() sets apart. */
function uploadMxfp4(
  context: CudaCheckContext,
  numRows: number,
  inputs: number,
): CheckInput & { readonly scales: bigint | undefined } {
  const numBlocks = inputs / 32;
  const blocks = Uint8Array.from(seededInts((numRows * inputs) / 2, 3, 256));
  const exponents = Uint8Array.from(seededInts(numRows * numBlocks, 5, 6), (exponent, i) =>
    Math.floor(i / numBlocks) % OUTLIER_STEP === 0 ? 124 + exponent + 10 : 124 + exponent,
  );
  const values = Float32Array.from({ length: numRows * inputs }, (_, i) => {
    const byte = blocks[i >> 1] ?? 0;
    const code = i % 2 === 0 ? byte & 15 : byte >> 4;
    return (code > 7 ? -1 : 1) * (E2M1[code & 7] ?? 0) * 2 ** ((exponents[Math.floor(i / 32)] ?? 0) - 127);
  });
  return {
    pointer: context.upload(packMxfp4(blocks)),
    values,
    scales: context.upload(packMxfp4Scales(exponents)),
  };
}

async function runLinear(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { weightType, numTokens, numExperts, numChosen, inputs, outputs, hasBias = false } = variant;
  const { isGated: gate = false } = variant;
  const isGated = gate !== false;
  const clamp = typeof gate === "boolean" ? undefined : gate;
  const ids = choose(variant);
  const numChoices = ids.length;
  // The first GEMM reads a row for each token, the second one for each choice.
  const rowsPerToken = isGated ? 1 : numChosen;
  const matrixRows = numExperts * outputs * (isGated ? 2 : 1);
  const x = uploadRandom(context, "bf16", numTokens * rowsPerToken * inputs, 2);
  const weight = uploadWeights(context, weightType, matrixRows, inputs);
  const bias = hasBias ? uploadRandom(context, "f32", matrixRows, 4) : undefined;
  const rows = { choicesPerRow: isGated ? numChosen : 1, x: x.pointer, numChoices, inputs, outputs };
  const out = context.allocate(numChoices * outputs * 4);
  const lists = uploadLists(context, ids, variant);
  const matrices = { weightType, weight: weight.pointer, scales: weight.scales, bias: bias?.pointer };
  const use = { gatedBy: isGated ? (clamp ?? "silu") : undefined, followsGemm: !isGated } as const;
  const args = { ...rows, ...matrices, ...use, lists, out, numExperts, numTokens };
  launchExpertGemm(context.stream, args, variant.plan);
  const result = await downloadFloats(context, "bf16", out, numChoices * outputs);
  const shape = { inputs, outputs: matrixRows / numExperts, rowsPerToken, numChosen };
  const products = expertLinearRef({ x: x.values, weight: weight.values, ids, ...shape });
  const sums = bias === undefined ? products : withExpertBiases(products, ids, bias.values);
  return errorOfColumns(result, isGated ? gatedRef(sums, outputs, clamp) : sums, ids, { outputs, isGated });
}

/** The larger error of the columns whose scales are outliers and of the others, which those would hide. */
function errorOfColumns(
  result: Float32Array,
  expected: Float32Array,
  ids: Int32Array,
  { outputs, isGated }: { readonly outputs: number; readonly isGated: boolean },
): number {
  const isOutlier = (_: number, i: number): boolean => {
    const first = (ids[Math.floor(i / outputs)] ?? 0) * outputs * (isGated ? 2 : 1) + (i % outputs);
    return first % OUTLIER_STEP === 0 || (isGated && (first + outputs) % OUTLIER_STEP === 0);
  };
  const isPlain = (value: number, i: number): boolean => !isOutlier(value, i);
  return Math.max(
    relativeError(result.filter(isOutlier), expected.filter(isOutlier)),
    relativeError(result.filter(isPlain), expected.filter(isPlain)),
  );
}

async function runMix(context: CudaCheckContext): Promise<number> {
  const [numTokens, numChosen, width, numExperts] = [9, 3, 200, 150];
  const x = uploadRandom(context, "bf16", numTokens * numChosen * width, 1);
  const weights = uploadRandom(context, "f32", numTokens * numChosen, 2);
  const counts = context.upload(new Int32Array(numExperts).fill(1));
  const lists = { counts, numExperts };
  const out = context.allocate(numTokens * width * 2);
  const sizes = { numTokens, numChosen, width };
  launchMixExperts(context.stream, { type: "bf16", x: x.pointer, weights: weights.pointer, out, lists, ...sizes });
  const left = new Int32Array(numExperts);
  await context.download(counts, left);
  return Math.max(
    shareOfDifferences(left, new Int32Array(numExperts)),
    relativeError(
      await downloadFloats(context, "bf16", out, numTokens * width),
      mixExpertsRef(x.values, weights.values, numChosen),
    ),
  );
}
