/** Launches all that lies between two attentions of a decoder as one kernel, for few rows. */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import { ceilDiv, type Defines, expectCount, f32, i32, ptr } from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";

export type ThinLayerWeightType = "bf16" | "e4m3" | "int4";

export interface ThinLayerMatrix {
  readonly weight: DevicePointer; // [outputs, inputs]; of 4 bits as packInt4() orders them, in groups of 128 without zeros
  /** Of codes: f32 [outputs]; of 4 bits: f16 as packInt4() orders them. */
  readonly scales?: DevicePointer | undefined;
}

export interface ThinLayerShape {
  readonly weightType: ThinLayerWeightType;
  readonly numRows: number;
  readonly attendedWidth: number;
  readonly width: number;
  readonly inner: number;
  readonly outWidth: number;
}

/** What comes before the next attention; absent behind the last one. */
export interface ThinLayerBefore {
  readonly matrix: ThinLayerMatrix; // [outWidth, width]
  readonly norm: DevicePointer; // f32 [width]
  readonly bias?: DevicePointer | undefined; // bf16 [outWidth]
  readonly out: DevicePointer; // bf16 [numRows, outWidth]
}

export interface ThinLayerCudaArgs extends ThinLayerShape {
  readonly activation: CudaActivation;
  readonly epsilon: number;
  readonly attended: DevicePointer; // bf16 [numRows, attendedWidth]
  readonly residual: DevicePointer; // bf16 [numRows, width]
  readonly activated: DevicePointer; // 16 bits [numRows, inner]: room
  readonly behind: ThinLayerMatrix; // [width, attendedWidth]
  readonly norm: DevicePointer; // f32 [width], of gate and up
  readonly gateUp: ThinLayerMatrix; // [2 * inner, width]
  readonly down: ThinLayerMatrix; // [width, inner]
  readonly before?: ThinLayerBefore | undefined;
  /** `thinMeetingBytes()` of zeros before the first launch; no two launches that run at once may share them. */
  readonly meeting: DevicePointer;
  /** Only some of the products, each a launch of its own, and how many blocks: for checks. */
  readonly products?: readonly [first: number, end: number];
  readonly numBlocks?: number;
}

/** From more rows on, products of their own take less time. */
const MAX_ROWS: Readonly<Record<ThinLayerWeightType, number>> = { bf16: 8, e4m3: 4, int4: 4 };

const THREADS = 512;
const WARPS = 16;
const NUM_PRODUCTS = 4;
const TILES: readonly number[] = [8, 4, 2];
/** Of a warp's copies. More gain nothing, and what is on its way delays what blocks hand each other. */
const STAGES = 3;
const STAGE_BYTES: Readonly<Record<ThinLayerWeightType, number>> = { bf16: 2048, e4m3: 2048, int4: 2112 };
/** Bytes that an input of a row of x takes. */
const X_BYTES = 2;
const MAX_INT4_ROWS = 4;
/** Inputs that a warp takes at a time. */
const CHUNKS: Readonly<Record<ThinLayerWeightType, number>> = { bf16: 64, e4m3: 128, int4: 256 };
/** Inputs that may share a scale of x. */
const GROUP = 128;
/** Up to so many rows blocks hand each other numbers; of more all meet. */
const TAGGED_ROWS = 2;
/** Of counters, in front of what blocks hand each other. */
const COUNTER_BYTES = 4096;
const FIRST_LAUNCHES = 4;

export interface ThinLayerPlan {
  readonly rows: number;
  /** Tiles of 16 outputs whose sums meet at once. */
  readonly tiles: number;
  readonly sharedBytes: number;
}

/** Undefined where the kernel is not written for the shape, or a multiprocessor has too little shared memory for it. */
export function planThinLayer(arch: string, shape: ThinLayerShape): ThinLayerPlan | undefined {
  const { weightType, numRows, attendedWidth, width, inner, outWidth } = shape;
  if (numRows < 1 || numRows > MAX_ROWS[weightType]) return undefined;
  const outputStep = weightType === "int4" ? 64 : 16;
  const isShape =
    [attendedWidth, width, inner].every((inputs) => inputs > 0 && inputs % CHUNKS[weightType] === 0) &&
    [width, inner, outWidth].every((outputs) => outputs > 0 && outputs % outputStep === 0);
  if (!isShape) return undefined;
  const rows = 2 ** Math.ceil(Math.log2(numRows));
  if (weightType === "int4" && rows > MAX_INT4_ROWS) return undefined;
  const widest = Math.max(attendedWidth, width, inner);
  const keepsAll = rows <= TAGGED_ROWS || weightType === "int4";
  const kept = keepsAll ? widest : Math.max(attendedWidth, width);
  const keptBytes = rows * (X_BYTES * kept + (weightType === "int4" ? 128 : 64));
  const scaleBytes = 16 * ceilDiv(rows * Math.floor(widest / GROUP), 4);
  const forms = TILES.filter((tiles) => 16 * rows * tiles <= THREADS).map((tiles) => {
    const sumBytes = 4 * (2 * tiles * WARPS * 16 * rows + 2 * rows * WARPS);
    const sharedBytes = STAGES * WARPS * STAGE_BYTES[weightType] + sumBytes + scaleBytes + keptBytes;
    return { rows, tiles, sharedBytes };
  });
  return forms.find(({ sharedBytes }) => sharedBytes <= sharedBytesPerBlock(arch));
}

/** What `meeting` takes for layers of such widths. */
export function thinMeetingBytes({ width, inner }: Pick<ThinLayerShape, "width" | "inner">): number {
  return COUNTER_BYTES + 4 * TAGGED_ROWS * (2 * width + inner);
}

export function launchThinLayer(stream: KernelStream, args: ThinLayerCudaArgs): void {
  const { weightType, numRows, behind, gateUp, down, before } = args;
  expectCount("thinLayer", "row", numRows);
  const plan = planThinLayer(stream.arch, args);
  if (plan === undefined) {
    const { attendedWidth, width, inner, outWidth } = args;
    throw new Error(
      `thinLayer: no form for ${numRows} rows of ${attendedWidth}, ${width}, ${inner} and ${outWidth} in ${weightType}`,
    );
  }
  const kernel = stream.kernel({
    source: "thin-layer/thin-layer.cu",
    name: "thin_layer",
    defines: {
      ELEM_BF16: 1,
      ROWS: plan.rows,
      STAGES,
      TILES: plan.tiles,
      ACTIVATION: ACTIVATION_NUMBERS[args.activation],
      ...WEIGHT_DEFINES[weightType],
    },
    waitsForPrevious: true,
  });
  const last = before === undefined ? NUM_PRODUCTS - 1 : NUM_PRODUCTS;
  const [first, end] = args.products ?? [0, last];
  const numBlocks = args.numBlocks ?? stream.numSms;
  if (numBlocks > COUNTER_BYTES / 4 - FIRST_LAUNCHES) throw new Error(`thinLayer: no counters for ${numBlocks} blocks`);
  stream.launch(kernel, [numBlocks, 1, 1], [THREADS, 1, 1], plan.sharedBytes, [
    ptr(args.attended),
    ptr(args.residual),
    ptr(args.activated),
    ptr(before?.out),
    ptr(behind.weight),
    ptr(gateUp.weight),
    ptr(down.weight),
    ptr(before?.matrix.weight),
    ptr(behind.scales),
    ptr(gateUp.scales),
    ptr(down.scales),
    ptr(before?.matrix.scales),
    ptr(args.norm),
    ptr(before?.norm),
    ptr(before?.bias),
    ptr(args.meeting),
    ptr(args.meeting + BigInt(COUNTER_BYTES)),
    i32(numRows),
    i32(args.attendedWidth),
    i32(args.width),
    i32(args.inner),
    i32(args.outWidth),
    f32(args.epsilon),
    i32(end === last ? 1 : 0),
    i32(first),
    i32(end),
  ]);
}

const WEIGHT_DEFINES: Readonly<Record<ThinLayerWeightType, Defines>> = {
  bf16: {},
  e4m3: { WEIGHT_E4M3: 1 },
  int4: { WEIGHT_INT4: 1 },
};
