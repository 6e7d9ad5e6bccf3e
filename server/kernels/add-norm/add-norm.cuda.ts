/**
 * Launches add-norm.cu: adds a branch to the residual stream and normalizes the sum in one pass, between two blocks of
 * a decoder. Without a branch it is a plain norm of `residual`. Source: RMSNorm (Zhang and Sennrich 2019), LayerNorm
 * (Ba et al. 2016).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { type ElemType, elemDefines, expectCount, f32, i32, ptr, rowShape } from "../cuda/launch-args.ts";
import {
  type QuantizedOutput,
  quantizeDefines,
  type SplitKPartials,
  type SumScales,
} from "../cuda/quantized-output.ts";

export interface AddNormCudaArgs {
  readonly type: ElemType;
  readonly residual: DevicePointer; // [numRows, width]; with a branch it is written too
  readonly branch?: DevicePointer | undefined; // [numRows, width]
  /** Scales of the branch's rows and columns, if it holds unscaled sums of codes. */
  readonly branchScales?: SumScales | undefined;
  /** In place of `branch`. */
  readonly branchPartials?: SplitKPartials | undefined;
  /** Multiplies the branch, 1 for most models. */
  readonly branchScale?: number | undefined;
  /** f32 [width]: the branch is normalized by its root mean square before it is added. */
  readonly postWeight?: DevicePointer | undefined;
  readonly kind: "rms" | "layer";
  readonly weight: DevicePointer; // f32 [width]
  readonly bias?: DevicePointer | undefined; // f32 [width]
  readonly epsilon: number;
  readonly out: DevicePointer; // [numRows, width], elements or codes
  readonly quantized?: QuantizedOutput | undefined;
  readonly numRows: number;
  readonly width: number;
}

export function launchAddNorm(stream: KernelStream, args: AddNormCudaArgs): void {
  const { type, numRows, width, branchPartials } = args;
  const branch = branchPartials?.address ?? args.branch;
  expectCount("addNorm", "row", numRows);
  const { threads, vectors } = rowShape("addNorm", width, type);
  const kernel = stream.kernel({
    source: "add-norm/add-norm.cu",
    name: "add_norm",
    defines: {
      ...elemDefines(type),
      ...quantizeDefines(args.quantized),
      VECTORS: vectors,
      ...(branch === undefined ? {} : { HAS_BRANCH: 1 }),
      ...(branchPartials === undefined ? {} : { BRANCH_PARTIALS: branchPartials.count }),
      ...(args.branchScales === undefined ? {} : { BRANCH_SCALES: 1 }),
      ...(args.postWeight === undefined ? {} : { POST_NORM: 1 }),
      ...(args.kind === "layer" ? { LAYER_NORM: 1 } : {}),
      ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }),
    },
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [numRows, 1, 1], [threads, 1, 1], 0, [
    ptr(args.residual),
    ptr(branch),
    ptr(args.postWeight),
    ptr(args.weight),
    ptr(args.bias),
    ptr(args.out),
    ptr(args.quantized?.scales),
    ptr(args.branchScales?.rows),
    ptr(args.branchScales?.columns),
    i32(width),
    f32(args.epsilon),
    f32(args.branchScale ?? 1),
  ]);
}
