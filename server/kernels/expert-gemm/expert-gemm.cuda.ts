/**
 * Launches the grouped GEMMs of a mixture of experts on a GPU, by the plan of expert-plan.ts. Source: Shazeer et al. 2017;
 * Fedus et al. 2021.
 */
import type { DevicePointer, KernelArg, KernelSpec, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, type Defines, expectCount, i32, ptr } from "../cuda/launch-args.ts";
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

export interface ExpertGemmCudaArgs {
  /** Choices that share a row of `x`: the chosen experts a token, or 1 when each has its own. */
  readonly choicesPerRow: number;
  readonly x: DevicePointer; // [numChoices / choicesPerRow, inputs]
  readonly out: DevicePointer; // [numChoices, outputs]
  /** f32, one for each row of the matrices. */
  readonly bias?: DevicePointer | undefined;
  readonly numChoices: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly weightType: ExpertWeightType;
  /** Rows of FP8 codes are interleaved (quantize.cuda.ts), those of MXFP4 packed (pack-mxfp4.ts). */
  readonly weight: DevicePointer; // [numExperts, outputs, inputs]; gated: [numExperts, 2 * outputs, inputs]
  /** FP8: f32, one for each row of the matrices. MXFP4: u8, one for 32 inputs of a row. */
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
/** Inputs of 16 bytes. */
const INPUT_STEPS: Readonly<Record<ExpertWeightType, number>> = { bf16: 8, e4m3: 16, mxfp4: 32 };
const TILES_THREADS = 128;
const TILES_STAGES = 3;
const TILES_MATRIX_ROWS = 64;
const SKINNY_THREADS = 256;
const SKINNY_STAGES = 3;
const SKINNY_TILE_BYTES = 16 * 128;

/** bf16 rows times bf16 or FP8 matrices. After launchRouteExperts(). */
export function launchExpertGemm(
  stream: KernelStream,
  args: ExpertGemmCudaArgs,
  plan: ExpertGemmPlan = planExpertGemm(stream, { ...args, isGated: args.gatedBy !== undefined }),
): void {
  const { weightType, inputs, numChoices, numExperts, outputs } = args;
  expectCount("expertGemm", "choice", numChoices);
  const step = INPUT_STEPS[weightType];
  if (!Number.isInteger(inputs) || inputs < step || inputs % step !== 0)
    throw new Error(`expertGemm: expected rows of a multiple of ${step} elements of ${weightType}, got ${inputs}`);
  if (2 * numExperts * outputs > MAX_LINES) throw new Error(`expertGemm: too many rows, ${numExperts} x ${outputs}`);
  if (plan.kernel === "skinny") launchSkinny(stream, args, plan);
  else if (plan.kernel === "wgmma") launchWgmma(stream, args, plan);
  else launchTiles(stream, args, plan);
}

function launchTiles(
  stream: KernelStream,
  args: ExpertGemmCudaArgs,
  { rows }: Extract<ExpertGemmPlan, { readonly kernel: "tiles" }>,
): void {
  const kernel = stream.kernel(specOf("tiles", { ROWS: rows, ...commonDefines(args) }));
  const lineInputs = LINE_INPUTS[args.weightType];
  const rowBytes = 2 * lineInputs + (args.weightType === "bf16" ? 64 : 16);
  const outputs = args.gatedBy === undefined ? TILES_MATRIX_ROWS : TILES_MATRIX_ROWS / 2;
  const sharedBytes = TILES_STAGES * (TILES_MATRIX_ROWS * 128 + rows * rowBytes);
  const grid = [ceilDiv(args.outputs, outputs), maxTiles(args, rows), 1] as const;
  stream.launch(kernel, grid, [TILES_THREADS, 1, 1], sharedBytes, [ptr(args.x), ptr(args.weight), ...commonArgs(args)]);
}

function launchSkinny(
  stream: KernelStream,
  args: ExpertGemmCudaArgs,
  { rows, tiles }: Extract<ExpertGemmPlan, { readonly kernel: "skinny" }>,
): void {
  const outputs = skinnyOutputs({ isGated: args.gatedBy !== undefined }, tiles);
  if (args.outputs % outputs !== 0)
    throw new Error(`expertGemm: expected a multiple of ${outputs} outputs for skinny tiles, got ${args.outputs}`);
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

function launchWgmma(stream: KernelStream, args: ExpertGemmCudaArgs, config: ExpertWgmmaConfig): void {
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
  stream.launch(kernel, grid, [threads, 1, 1], expertWgmmaSharedBytes(config), [
    { table },
    ptr(args.x),
    ...commonArgs(args),
  ]);
}

function specOf(name: "tiles" | "skinny" | "wgmma", defines: Defines): KernelSpec {
  return {
    source: `expert-gemm/expert-${name}.cu`,
    name: `expert_${name}`,
    defines,
    usesProgrammaticLaunch: true,
  };
}

function biasDefines({ bias }: ExpertGemmCudaArgs): Defines {
  return bias === undefined ? {} : { HAS_BIAS: 1 };
}

function commonDefines(args: ExpertGemmCudaArgs): Defines {
  const { weightType, gatedBy } = args;
  return {
    ...(weightType === "e4m3" ? { WEIGHT_E4M3: 1 } : {}),
    ...(weightType === "mxfp4" ? { WEIGHT_MXFP4: 1 } : {}),
    ...biasDefines(args),
    ...(gatedBy === undefined ? {} : { GATED: 1, ...gatedDefines(gatedBy) }),
  };
}

function earlyDefines({ followsGemm = false }: ExpertGemmCudaArgs): Defines {
  return followsGemm ? { LISTS_EARLY: 1 } : {};
}

/** The parameters behind rows and weights, which all kernels share. */
function commonArgs(args: ExpertGemmCudaArgs): readonly KernelArg[] {
  const { lists, numExperts, numTokens, inputs, outputs, choicesPerRow } = args;
  const pointers = [args.scales, args.bias, lists.counts, lists.order, args.out].map(ptr);
  return [...pointers, ...[numExperts, numTokens, inputs, outputs, choicesPerRow].map(i32)];
}

/** How choices fall is known on the device alone: as many tiles as there can be. */
function maxTiles({ numChoices, numExperts }: ExpertGemmCudaArgs, rows: number): number {
  return Math.min(numChoices, Math.floor(numChoices / rows) + numExperts);
}
