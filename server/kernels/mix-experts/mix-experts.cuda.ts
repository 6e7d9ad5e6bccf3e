/** Launches mix-experts.cu: the weighted sum of the outputs of each token's experts. Source: Shazeer et al. 2017. */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  i32,
  ptr,
} from "../cuda/launch-args.ts";

export interface MixExpertsCudaArgs {
  readonly type: ElemType;
  readonly x: DevicePointer; // [numTokens, numChosen, width]
  readonly weights: DevicePointer; // f32 [numTokens, numChosen]
  readonly out: DevicePointer; // [numTokens, width]
  /** The lists of the router, to be emptied. */
  readonly lists?: { readonly counts: DevicePointer; readonly numExperts: number } | undefined;
  readonly numTokens: number;
  readonly numChosen: number;
  readonly width: number;
}

const THREADS = 128;

export function launchMixExperts(stream: KernelStream, args: MixExpertsCudaArgs): void {
  const { type, lists, numTokens, numChosen, width } = args;
  expectCount("mixExperts", "token", numTokens);
  expectWidth("mixExperts", width, type);
  const kernel = stream.kernel({
    source: "mix-experts/mix-experts.cu",
    name: "mix_experts",
    defines: { ...elemDefines(type), ...(lists === undefined ? {} : { EMPTIES_LISTS: 1 }) },
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(width / ELEM_VEC[type], THREADS), numTokens, 1] as const;
  const pointers = [ptr(args.x), ptr(args.weights), ptr(args.out), ptr(lists?.counts)];
  const sizes = [i32(numChosen), i32(width), i32(lists?.numExperts ?? 0)];
  stream.launch(kernel, grid, [THREADS, 1, 1], 0, [...pointers, ...sizes]);
}
