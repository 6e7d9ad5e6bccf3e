/**
 * Which kernel multiplies rows with the experts that they choose, in which tile configuration. Pure: how the choices fall is
 * known on the device alone, so it depends on numbers of them. Source: grouped GEMM schedulers of CUTLASS 3.
 *
 * | choices                                            | kernel                                                   |
 * |----------------------------------------------------|----------------------------------------------------------|
 * | of 1 to 16 tokens, unless wgmma fills the SMs well | skinny: small blocks, inputs divided among warps         |
 * | others, on sm_90a                                  | wgmma: persistent blocks, TMA                            |
 * | others; deterministic mode                         | tiles: mma.sync, each element one sum in order of inputs |
 */
import type { KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { hasWgmma } from "../cuda/device-limits.ts";
import { ceilDiv } from "../cuda/launch-args.ts";

export type ExpertWeightType = "bf16" | "e4m3" | "mxfp4";

export interface ExpertGemmShape {
  readonly weightType: ExpertWeightType;
  readonly numTokens: number;
  readonly numChoices: number;
  readonly numExperts: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly isGated: boolean;
  /** The result of a row may not depend on the other rows. */
  readonly isDeterministic?: boolean | undefined;
}

export interface ExpertWgmmaConfig {
  readonly kernel: "wgmma";
  /** Choices of a tile. */
  readonly rows: number;
  readonly groups: number;
  readonly groupTiles: number;
  readonly weightStages: number;
  readonly rowStages: number;
}

export type ExpertGemmPlan =
  | ExpertWgmmaConfig
  | { readonly kernel: "skinny"; readonly rows: 8 | 16; readonly tiles: 1 | 2 }
  | { readonly kernel: "tiles"; readonly rows: 8 | 16 | 32 | 64 };

/** Inputs of 128 bytes of a row of weights. */
export const LINE_INPUTS: Readonly<Record<ExpertWeightType, number>> = { bf16: 64, e4m3: 128, mxfp4: 256 };
const LINE_BYTES = 128;
/** Matrix rows of a tile of WGMMA, and of mma.sync. */
const TILE = 64;
const SKINNY_TILE = 16;
const MAX_SKINNY_TOKENS = 16;
/** A skinny block of more choices than these on average takes 16. */
const MANY_ROWS = 6;
/** Fitted to an H200, bench/gpu/results/experts.md. */
const SKINNY_SHARE: Readonly<Record<ExpertWeightType, number>> = { bf16: 1.45, e4m3: 1.5, mxfp4: 2.2 };
const SKINNY_START_BYTES = 1700;
/** Blocks for each SM from which on they may be larger. */
const MANY_BLOCKS = 8;
const TILE_ROWS = [8, 16, 32] as const;
const LARGEST_TILE_ROWS = 64;
const WGMMA_ROWS = [16, 32, 64] as const;
const LARGEST_WGMMA_ROWS = 128;
/** Choices spread unevenly: room over the average, so that few experts need a second tile. */
const ROOM = 1.5;
/** Leaves the small kernels beside it some of an SM's 228 KiB. */
const RING_BYTES = 204 * 1024;
/** Matrix rows whose time a unit costs besides: its search and its epilogue. */
const UNIT_COST = 16;
/** Lines of 64 inputs of a tile's rows that are on their way. */
const ROW_STAGES: Readonly<Record<number, number>> = { 16: 8, 32: 6, 64: 6, 128: 4 };

export function planExpertGemm(device: Pick<KernelStream, "arch" | "numSms">, shape: ExpertGemmShape): ExpertGemmPlan {
  const { numTokens, isDeterministic = false } = shape;
  if (isDeterministic) return planTiles(shape);
  const isSkinny = numTokens <= MAX_SKINNY_TOKENS && shape.outputs % skinnyOutputs(shape, 1) === 0;
  if (!hasWgmma(device.arch)) return isSkinny ? planSkinny(device, shape) : planTiles(shape);
  const { config, share } = planWgmma(device, shape);
  return isSkinny && skinnyShare(shape) > share ? planSkinny(device, shape) : config;
}

function planTiles({ weightType, numChoices, numExperts }: ExpertGemmShape): ExpertGemmPlan {
  // Small enough that most of a tile is filled: the matrices are then read once each.
  const average = numChoices / numExperts;
  // Lines of MXFP4 go with twice the inputs.
  const largest = weightType === "mxfp4" ? TILE_ROWS[2] : LARGEST_TILE_ROWS;
  return { kernel: "tiles", rows: TILE_ROWS.find((size) => average <= size) ?? largest };
}

/** Outputs of a block; of a gated matrix half of its rows. */
export function skinnyOutputs({ isGated }: Pick<ExpertGemmShape, "isGated">, tiles: number): number {
  return (tiles * SKINNY_TILE) / (isGated ? 2 : 1);
}

function planSkinny({ numSms }: Pick<KernelStream, "numSms">, shape: ExpertGemmShape): ExpertGemmPlan {
  const active = activeExperts(shape);
  const wide = skinnyOutputs(shape, 2);
  const isWide = shape.outputs % wide === 0 && (active * shape.outputs) / wide >= MANY_BLOCKS * numSms;
  return {
    kernel: "skinny",
    rows: shape.weightType !== "mxfp4" && shape.numChoices / active > MANY_ROWS ? 16 : 8,
    tiles: isWide ? 2 : 1,
  };
}

/** Experts that have choices, if these fall evenly. */
function activeExperts({ numChoices, numTokens, numExperts }: ExpertGemmShape): number {
  return numExperts * (1 - (1 - numChoices / numTokens / numExperts) ** numTokens);
}

/** Speed of the skinny kernel as a share of what persistent blocks reach on all SMs: short rows pay for their start. */
function skinnyShare({ weightType, inputs }: ExpertGemmShape): number {
  const rowBytes = (LINE_BYTES * inputs) / LINE_INPUTS[weightType];
  return SKINNY_SHARE[weightType] / (1 + SKINNY_START_BYTES / rowBytes);
}

interface WgmmaChoice {
  readonly config: ExpertWgmmaConfig;
  /** Share of the SMs' time in which they have work. */
  readonly share: number;
}

function planWgmma({ numSms }: Pick<KernelStream, "numSms">, shape: ExpertGemmShape): WgmmaChoice {
  const active = activeExperts(shape);
  const average = shape.numChoices / active;
  const rows = WGMMA_ROWS.find((size) => ROOM * average <= size) ?? LARGEST_WGMMA_ROWS;
  const tiles = active * ceilDiv(average, rows);
  const slots = shape.isGated ? [2] : [1, 2];
  // One consumer of codes, which it turns into bf16 itself, would be the limit.
  const groupCounts = shape.weightType === "bf16" ? [1, 2] : [2];
  const configs = groupCounts.flatMap((groups) => slots.map((groupTiles) => ({ groups, groupTiles })));
  const unitsOf = (width: number): number => tiles * ceilDiv(shape.outputs, shape.isGated ? width / 2 : width);
  const costOf = ({ groups, groupTiles }: { readonly groups: number; readonly groupTiles: number }): number => {
    const width = groups * groupTiles * TILE;
    return ceilDiv(unitsOf(width), numSms) * (width + UNIT_COST);
  };
  const best = configs.reduce((a, b) => (costOf(b) <= costOf(a) ? b : a));
  const rowStages = ROW_STAGES[rows] ?? 4;
  const otherBytes = (rowStages + best.groups) * rows * LINE_BYTES;
  const weightStages = Math.floor((RING_BYTES - otherBytes) / (TILE * LINE_BYTES));
  const units = unitsOf(best.groups * best.groupTiles * TILE);
  return {
    config: { kernel: "wgmma", rows, ...best, rowStages, weightStages },
    share: units / (ceilDiv(units, numSms) * numSms),
  };
}

/** Bytes of dynamic shared memory: both rings, a tile of results for each consumer, and padding for alignment to 1024. */
export function expertWgmmaSharedBytes({ rows, groups, weightStages, rowStages }: ExpertWgmmaConfig): number {
  return weightStages * TILE * LINE_BYTES + (rowStages + groups) * rows * LINE_BYTES + 1024;
}
