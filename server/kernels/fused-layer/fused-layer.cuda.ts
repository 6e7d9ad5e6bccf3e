/**
 * Launches fused-layer.cu: everything between two attentions of a decoder as one kernel, for few rows. Source: RMSNorm
 * (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020), grid synchronization of the CUDA C++ Programming Guide.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import { ceilDiv, type Defines, expectCount, f32, i32, ptr } from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";

export type FusedLayerWeightType = "bf16" | "e4m3" | "int4";

export interface FusedLayerMatrix {
  readonly weight: DevicePointer; // [outputs, inputs]; INT4 as packInt4() orders it, in groups of 128 without zeros
  /** FP8: f32 [outputs]. INT4: f16 as packInt4() orders them. */
  readonly scales?: DevicePointer | undefined;
}

export interface FusedLayerShape {
  readonly weightType: FusedLayerWeightType;
  readonly numRows: number;
  readonly attentionWidth: number;
  readonly width: number;
  readonly inner: number;
  readonly outWidth: number;
}

/** The QKV projection of the next layer; absent after the last layer. */
export interface FusedLayerQkvProj {
  readonly matrix: FusedLayerMatrix; // [outWidth, width]
  readonly norm: DevicePointer; // f32 [width]
  readonly bias?: DevicePointer | undefined; // bf16 [outWidth]
  readonly out: DevicePointer; // bf16 [numRows, outWidth]
}

export interface FusedLayerCudaArgs extends FusedLayerShape {
  readonly activation: CudaActivation;
  readonly epsilon: number;
  readonly attention: DevicePointer; // bf16 [numRows, attentionWidth]
  readonly residual: DevicePointer; // bf16 [numRows, width]
  readonly activated: DevicePointer; // 16 bits [numRows, inner]: room
  readonly oProj: FusedLayerMatrix; // [width, attentionWidth]
  readonly norm: DevicePointer; // f32 [width], of gate and up
  readonly gateUp: FusedLayerMatrix; // [2 * inner, width]
  readonly down: FusedLayerMatrix; // [width, inner]
  readonly qkvProj?: FusedLayerQkvProj | undefined;
  /** `gridBarrierBytes()` of zeros before the first launch; no two launches that run at once may share them. */
  readonly gridBarrier: DevicePointer;
  /** Only some of the GEMMs, each a launch of its own, and how many blocks: for checks. */
  readonly gemms?: readonly [first: number, end: number];
  readonly numBlocks?: number;
}

/** With more rows, separate GEMMs take less time. */
const MAX_ROWS: Readonly<Record<FusedLayerWeightType, number>> = { bf16: 8, e4m3: 4, int4: 4 };

const THREADS = 512;
const WARPS = 16;
const NUM_PRODUCTS = 4;
const TILES: readonly number[] = [8, 4, 2];
/** Stages of a warp's copies. More gain nothing: copies in flight delay the exchange between blocks. */
const STAGES = 3;
const STAGE_BYTES: Readonly<Record<FusedLayerWeightType, number>> = { bf16: 2048, e4m3: 2048, int4: 2112 };
/** Bytes that an input of a row of x takes. */
const X_BYTES = 2;
const MAX_INT4_ROWS = 4;
/** Inputs that a warp takes at a time. */
const CHUNKS: Readonly<Record<FusedLayerWeightType, number>> = { bf16: 64, e4m3: 128, int4: 256 };
/** Inputs that may share a scale of x. */
const GROUP = 128;
/** Up to this many rows blocks exchange tagged words; with more they use grid barriers. */
const TAGGED_ROWS = 2;
/** Counters, in front of the tagged words. */
const COUNTER_BYTES = 4096;
const FIRST_LAUNCHES = 4;

export interface FusedLayerPlan {
  readonly rows: number;
  /** Tiles of 16 outputs whose sums are reduced at once. */
  readonly tiles: number;
  readonly sharedBytes: number;
}

/** Undefined where the kernel is not written for the shape, or a multiprocessor has too little shared memory for it. */
export function planFusedLayer(arch: string, shape: FusedLayerShape): FusedLayerPlan | undefined {
  const { weightType, numRows, attentionWidth, width, inner, outWidth } = shape;
  if (numRows < 1 || numRows > MAX_ROWS[weightType]) return undefined;
  const outputStep = weightType === "int4" ? 64 : 16;
  const isShape =
    [attentionWidth, width, inner].every((inputs) => inputs > 0 && inputs % CHUNKS[weightType] === 0) &&
    [width, inner, outWidth].every((outputs) => outputs > 0 && outputs % outputStep === 0);
  if (!isShape) return undefined;
  const rows = 2 ** Math.ceil(Math.log2(numRows));
  if (weightType === "int4" && rows > MAX_INT4_ROWS) return undefined;
  const widest = Math.max(attentionWidth, width, inner);
  const keepsAll = rows <= TAGGED_ROWS || weightType === "int4";
  const kept = keepsAll ? widest : Math.max(attentionWidth, width);
  const keptBytes = rows * (X_BYTES * kept + (weightType === "int4" ? 128 : 64));
  const scaleBytes = 16 * ceilDiv(rows * Math.floor(widest / GROUP), 4);
  const forms = TILES.filter((tiles) => 16 * rows * tiles <= THREADS).map((tiles) => {
    const sumBytes = 4 * (2 * tiles * WARPS * 16 * rows + 2 * rows * WARPS);
    const sharedBytes = STAGES * WARPS * STAGE_BYTES[weightType] + sumBytes + scaleBytes + keptBytes;
    return { rows, tiles, sharedBytes };
  });
  return forms.find(({ sharedBytes }) => sharedBytes <= sharedBytesPerBlock(arch));
}

/** Bytes of `gridBarrier` for layers of these widths. */
export function gridBarrierBytes({ width, inner }: Pick<FusedLayerShape, "width" | "inner">): number {
  return COUNTER_BYTES + 4 * TAGGED_ROWS * (2 * width + inner);
}

export function launchFusedLayer(stream: KernelStream, args: FusedLayerCudaArgs): void {
  const { weightType, numRows, oProj, gateUp, down, qkvProj } = args;
  expectCount("fusedLayer", "row", numRows);
  const plan = planFusedLayer(stream.arch, args);
  if (plan === undefined) {
    const { attentionWidth, width, inner, outWidth } = args;
    throw new Error(
      `fusedLayer: no form for ${numRows} rows of ${attentionWidth}, ${width}, ${inner} and ${outWidth} in ${weightType}`,
    );
  }
  const kernel = stream.kernel({
    source: "fused-layer/fused-layer.cu",
    name: "fused_layer",
    defines: {
      ELEM_BF16: 1,
      ROWS: plan.rows,
      STAGES,
      TILES: plan.tiles,
      ACTIVATION: ACTIVATION_NUMBERS[args.activation],
      ...WEIGHT_DEFINES[weightType],
    },
    usesProgrammaticLaunch: true,
  });
  const last = qkvProj === undefined ? NUM_PRODUCTS - 1 : NUM_PRODUCTS;
  const [first, end] = args.gemms ?? [0, last];
  const numBlocks = args.numBlocks ?? stream.numSms;
  if (numBlocks > COUNTER_BYTES / 4 - FIRST_LAUNCHES)
    throw new Error(`fusedLayer: no counters for ${numBlocks} blocks`);
  stream.launch(kernel, [numBlocks, 1, 1], [THREADS, 1, 1], plan.sharedBytes, [
    ptr(args.attention),
    ptr(args.residual),
    ptr(args.activated),
    ptr(qkvProj?.out),
    ptr(oProj.weight),
    ptr(gateUp.weight),
    ptr(down.weight),
    ptr(qkvProj?.matrix.weight),
    ptr(oProj.scales),
    ptr(gateUp.scales),
    ptr(down.scales),
    ptr(qkvProj?.matrix.scales),
    ptr(args.norm),
    ptr(qkvProj?.norm),
    ptr(qkvProj?.bias),
    ptr(args.gridBarrier),
    ptr(args.gridBarrier + BigInt(COUNTER_BYTES)),
    i32(numRows),
    i32(args.attentionWidth),
    i32(args.width),
    i32(args.inner),
    i32(args.outWidth),
    f32(args.epsilon),
    i32(end === last ? 1 : 0),
    i32(first),
    i32(end),
  ]);
}

const WEIGHT_DEFINES: Readonly<Record<FusedLayerWeightType, Defines>> = {
  bf16: {},
  e4m3: { WEIGHT_E4M3: 1 },
  int4: { WEIGHT_INT4: 1 },
};
