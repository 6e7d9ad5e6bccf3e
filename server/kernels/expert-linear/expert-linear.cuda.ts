/**
 * Launches the grouped GEMMs of a mixture of experts on a GPU, by the plan of expert-plan.ts. Source: Shazeer et al. 2017;
 * Fedus et al. 2021.
 */
import type { DevicePointer, KernelArg, KernelSpec, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, type Defines, elemDefines, expectCount, expectWidth, i32, ptr } from "../cuda/launch-args.ts";
import { type CudaGatedActivation, gatedDefines } from "../gated-mul/gated-mul.cuda.ts";
import type { ExpertLists } from "../route-experts/route-experts.cuda.ts";
import {
  type ExpertGemmPlan,
  type ExpertWeightType,
  type ExpertWgmmaConfig,
  expertWgmmaSharedBytes,
  LINE_INPUTS,
  planExpertGemm,
  skinnyOutputs,
} from "./expert-plan.ts";

interface ExpertRowsCudaArgs {
  /** Choices that share a row of `x`: the chosen experts a token, or 1 when each has its own. */
  readonly choicesPerRow: number;
  readonly x: DevicePointer; // [numChoices / choicesPerRow, inputs]
  readonly out: DevicePointer; // [numChoices, outputs]
  /** f32, one for each row of the matrices. */
  readonly bias?: DevicePointer | undefined;
  readonly numChoices: number;
  readonly inputs: number;
  readonly outputs: number;
}

export interface PlainExpertLinearCudaArgs extends ExpertRowsCudaArgs {
  readonly ids: DevicePointer; // i32 [numChoices]
  readonly weight: DevicePointer; // f32 [numExperts, outputs, inputs]
}

export interface ExpertLinearCudaArgs extends ExpertRowsCudaArgs {
  readonly weightType: ExpertWeightType;
  /** Rows of FP8 codes are interleaved (quantize.cuda.ts). */
  readonly weight: DevicePointer; // [numExperts, outputs, inputs]; gated: [numExperts, 2 * outputs, inputs]
  /** f32, one for each row of the matrices; of codes only. */
  readonly scales?: DevicePointer | undefined;
  readonly lists: ExpertLists;
  /** The first half of a matrix gives what is activated and multiplies what the second gives. */
  readonly gatedBy?: CudaGatedActivation | undefined;
  /** The kernel before is a GEMM over the same lists: weights may be requested before it ends. */
  readonly followsGemm?: boolean | undefined;
  readonly isDeterministic?: boolean | undefined;
  readonly numExperts: number;
  readonly numTokens: number;
}

const MAX_LINES = 2 ** 31 - 1;
const CODE_STEP = 16;
const FLOAT_STEP = 8;
const PLAIN_WARPS = 8;
const TILES_THREADS = 128;
const TILES_STAGES = 3;
const TILES_MATRIX_ROWS = 64;
const SKINNY_THREADS = 256;
const SKINNY_STAGES = 3;
const SKINNY_TILE_BYTES = 16 * 128;

/** In f32, for exactness. */
export function launchPlainExpertLinear(stream: KernelStream, args: PlainExpertLinearCudaArgs): void {
  const { numChoices, inputs, outputs, choicesPerRow } = args;
  expectCount("expertLinear", "choice", numChoices);
  expectWidth("expertLinear", inputs, "f32");
  const kernel = stream.kernel({
    source: "expert-linear/plain-expert-linear.cu",
    name: "plain_expert_linear",
    defines: { ...elemDefines("f32"), ...biasDefines(args) },
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(outputs, PLAIN_WARPS), numChoices, 1] as const;
  const pointers = [ptr(args.x), ptr(args.weight), ptr(args.ids), ptr(args.bias), ptr(args.out)];
  const sizes = [i32(inputs), i32(outputs), i32(choicesPerRow)];
  stream.launch(kernel, grid, [PLAIN_WARPS * 32, 1, 1], 0, [...pointers, ...sizes]);
}

/** bf16 rows times bf16 or FP8 matrices. After launchRouteExperts(). */
export function launchExpertLinear(
  stream: KernelStream,
  args: ExpertLinearCudaArgs,
  plan: ExpertGemmPlan = planExpertGemm(stream, { ...args, isGated: args.gatedBy !== undefined }),
): void {
  const { weightType, inputs, numChoices, numExperts, outputs } = args;
  expectCount("expertLinear", "choice", numChoices);
  const step = weightType === "e4m3" ? CODE_STEP : FLOAT_STEP;
  if (!Number.isInteger(inputs) || inputs < step || inputs % step !== 0)
    throw new Error(`expertLinear: expected rows of a multiple of ${step} elements of ${weightType}, got ${inputs}`);
  if (2 * numExperts * outputs > MAX_LINES) throw new Error(`expertLinear: too many rows, ${numExperts} x ${outputs}`);
  if (plan.kernel === "skinny") launchSkinny(stream, args, plan);
  else if (plan.kernel === "wgmma") launchWgmma(stream, args, plan);
  else launchTiles(stream, args, plan);
}

function launchTiles(
  stream: KernelStream,
  args: ExpertLinearCudaArgs,
  { rows }: Extract<ExpertGemmPlan, { readonly kernel: "tiles" }>,
): void {
  const kernel = stream.kernel(specOf("linear", { ROWS: rows, ...commonDefines(args) }));
  const lineInputs = LINE_INPUTS[args.weightType];
  const rowBytes = 2 * lineInputs + (args.weightType === "bf16" ? 64 : 16);
  const outputs = args.gatedBy === undefined ? TILES_MATRIX_ROWS : TILES_MATRIX_ROWS / 2;
  const sharedBytes = TILES_STAGES * (TILES_MATRIX_ROWS * 128 + rows * rowBytes);
  const grid = [ceilDiv(args.outputs, outputs), maxTiles(args, rows), 1] as const;
  stream.launch(kernel, grid, [TILES_THREADS, 1, 1], sharedBytes, [ptr(args.x), ptr(args.weight), ...commonArgs(args)]);
}

function launchSkinny(
  stream: KernelStream,
  args: ExpertLinearCudaArgs,
  { rows, tiles }: Extract<ExpertGemmPlan, { readonly kernel: "skinny" }>,
): void {
  const outputs = skinnyOutputs({ isGated: args.gatedBy !== undefined }, tiles);
  if (args.outputs % outputs !== 0)
    throw new Error(`expertLinear: expected a multiple of ${outputs} outputs for skinny tiles, got ${args.outputs}`);
  const isLarge = tiles === 2 || rows === 16;
  const kernel = stream.kernel(
    specOf("skinny", {
      ROWS: rows,
      TILES: tiles,
      STAGES: SKINNY_STAGES,
      BLOCKS_PER_SM: isLarge ? 2 : 3,
      ...commonDefines(args),
      ...earlyDefines(args),
    }),
  );
  const sharedBytes = (SKINNY_THREADS / 32) * SKINNY_STAGES * tiles * SKINNY_TILE_BYTES;
  const grid = [args.outputs / outputs, maxTiles(args, rows), 1] as const;
  stream.launch(kernel, grid, [SKINNY_THREADS, 1, 1], sharedBytes, [
    ptr(args.x),
    ptr(args.weight),
    ...commonArgs(args),
  ]);
}

function launchWgmma(stream: KernelStream, args: ExpertLinearCudaArgs, config: ExpertWgmmaConfig): void {
  const { rows, groups, groupTiles, weightStages, rowStages } = config;
  const { weightType, numExperts, outputs, inputs } = args;
  const kernel = stream.kernel(
    specOf("wgmma", {
      ROWS: rows,
      WARP_GROUPS: groups,
      GROUP_TILES: groupTiles,
      WEIGHT_STAGES: weightStages,
      ROW_STAGES: rowStages,
      ...commonDefines(args),
      ...earlyDefines(args),
    }),
  );
  const matrixRows = args.gatedBy === undefined ? outputs : 2 * outputs;
  const rowBytes = (128 * inputs) / LINE_INPUTS[weightType];
  const table = { address: args.weight, rowBytes, numRows: numExperts * matrixRows, pieceRows: 64 };
  const width = (groups * groupTiles * 64) / (args.gatedBy === undefined ? 1 : 2);
  const maxUnits = maxTiles(args, rows) * ceilDiv(outputs, width);
  const threads = (groups + 1) * 128;
  const grid = [Math.min(stream.numSms, maxUnits), 1, 1] as const;
  stream.launch(kernel, grid, [threads, 1, 1], expertWgmmaSharedBytes(weightType, config), [
    { table },
    ptr(args.x),
    ...commonArgs(args),
  ]);
}

function specOf(name: "linear" | "skinny" | "wgmma", defines: Defines): KernelSpec {
  return {
    source: `expert-linear/expert-${name}.cu`,
    name: `expert_${name}`,
    defines,
    usesProgrammaticLaunch: true,
  };
}

function biasDefines({ bias }: ExpertRowsCudaArgs): Defines {
  return bias === undefined ? {} : { HAS_BIAS: 1 };
}

function commonDefines(args: ExpertLinearCudaArgs): Defines {
  const { weightType, gatedBy } = args;
  return {
    ...(weightType === "e4m3" ? { WEIGHT_E4M3: 1 } : {}),
    ...biasDefines(args),
    ...(gatedBy === undefined ? {} : { GATED: 1, ...gatedDefines(gatedBy) }),
  };
}

function earlyDefines({ followsGemm = false }: ExpertLinearCudaArgs): Defines {
  return followsGemm ? { LISTS_EARLY: 1 } : {};
}

/** The parameters behind rows and weights, which all kernels share. */
function commonArgs(args: ExpertLinearCudaArgs): readonly KernelArg[] {
  const { lists, numExperts, numTokens, inputs, outputs, choicesPerRow } = args;
  const pointers = [args.scales, args.bias, lists.counts, lists.order, args.out].map(ptr);
  return [...pointers, ...[numExperts, numTokens, inputs, outputs, choicesPerRow].map(i32)];
}

/** How choices fall is known on the device alone: as many tiles as there can be. */
function maxTiles({ numChoices, numExperts }: ExpertLinearCudaArgs, rows: number): number {
  return Math.min(numChoices, Math.floor(numChoices / rows) + numExperts);
}
