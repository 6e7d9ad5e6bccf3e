/**
 * Launches rope-store.cu: splits the rows of the QKV projection, with head norms, RoPE, and keys and values to the
 * cache. Source: RoPE (Su et al. 2021), PagedAttention (Kwon et al. 2023).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { expectGroups, expectHeadDim, type KvCacheForm, kvDefines } from "../cuda/kv-cache-type.ts";
import { ceilDiv, type ElemType, elemDefines, expectCount, f32, i32, ptr } from "../cuda/launch-args.ts";
import { type SplitKPartials, type SumScales, sumDefines } from "../cuda/quantized-output.ts";

export interface RopeStoreCudaArgs extends KvCacheForm {
  readonly type: ElemType;
  readonly qkv: DevicePointer; // [numTokens, (numHeads + 2 * numKvHeads) * headDim]
  /** Scales of the rows and columns of `qkv`, if it holds unscaled sums of codes. */
  readonly sumScales?: SumScales | undefined;
  /** In place of `qkv`. */
  readonly splitKPartials?: SplitKPartials | undefined;
  readonly positions: DevicePointer; // i32 [numTokens]; of a rope with sections [3, numTokens]
  readonly slots: DevicePointer; // i32 [numTokens]; -1 stores nothing
  readonly numTokens: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  /** Absent for layers that rotate nothing. */
  readonly rope?: RopeTable | undefined;
  readonly headNorms?: HeadNorms | undefined;
  /** Rows of queries; `qkv` itself with rows as wide as its own rotates them in place. */
  readonly q: DevicePointer;
  readonly qRowWidth: number;
  readonly keys: DevicePointer; // [numSlots, numKvHeads * headDim]
  readonly values: DevicePointer; // [numSlots, numKvHeads * headDim]
}

export interface RopeTable {
  readonly invFreq: DevicePointer; // f32 [numDims / 2]
  /** Elements of a head that rotate; a multiple of 4. */
  readonly numDims: number;
  readonly magnitude: number;
  /** Pairs of a head that rotate by the time, the row and the column of a token; absent: all by its position. */
  readonly sections?: readonly [number, number, number] | undefined;
}

export interface HeadNorms {
  readonly weight: DevicePointer; // f32 [numHeads + numKvHeads, headDim]
  readonly epsilon: number;
}

function axisDefines(rope: RopeTable | undefined): Readonly<Record<string, number>> {
  const { sections, numDims = 0 } = rope ?? {};
  if (sections === undefined) return {};
  const [time, row, column] = sections;
  if (2 * (time + row + column) === numDims) return { TIME_PAIRS: time, ROW_PAIRS: row };
  throw new Error(`ropeStore: expected sections of ${numDims / 2} pairs in all, got ${sections.join(", ")}`);
}

const WARPS = 4;
/** From here on one block a token fills the device. */
const MANY_TOKENS = 256;

export function launchRopeStore(stream: KernelStream, args: RopeStoreCudaArgs): void {
  const { type, numTokens, numHeads, numKvHeads, headDim, rope, headNorms, fp8, sumScales, splitKPartials } = args;
  expectCount("ropeStore", "token", numTokens);
  expectHeadDim("ropeStore", headDim);
  expectGroups("ropeStore", numHeads, numKvHeads);
  const numDims = rope?.numDims ?? 0;
  if (numDims % 4 !== 0 || numDims > headDim) {
    throw new Error(`ropeStore: expected a multiple of 4 of at most ${headDim} rotated elements, got ${numDims}`);
  }
  const kernel = stream.kernel({
    source: "rope-store/rope-store.cu",
    name: "rope_store",
    defines: {
      ...elemDefines(type),
      ...kvDefines(args),
      ...sumDefines(sumScales, splitKPartials),
      HEAD_DIM: headDim,
      ...axisDefines(rope),
      ...(headNorms === undefined ? {} : { HEAD_NORMS: 1 }),
    },
    usesProgrammaticLaunch: true,
  });
  const numHeadGroups = numTokens >= MANY_TOKENS ? 1 : ceilDiv(numHeads + 2 * numKvHeads, WARPS);
  stream.launch(kernel, [numTokens, numHeadGroups, 1], [WARPS * 32, 1, 1], 0, [
    ptr(splitKPartials?.address ?? args.qkv),
    ptr(args.positions),
    ptr(args.slots),
    ptr(rope?.invFreq),
    ptr(headNorms?.weight),
    ptr(args.q),
    ptr(args.keys),
    ptr(args.values),
    ptr(sumScales?.rows),
    ptr(sumScales?.columns),
    i32(numHeads),
    i32(numKvHeads),
    i32(args.qRowWidth),
    i32(numDims),
    f32(rope?.magnitude ?? 1),
    f32(headNorms?.epsilon ?? 0),
    f32(1 / (fp8?.key ?? 1)),
    f32(1 / (fp8?.value ?? 1)),
  ]);
}
