/** Launches the f32 GEMM of a mixture of experts on a GPU, for exactness. Source: Shazeer et al. 2017; Fedus et al. 2021. */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, elemDefines, expectCount, expectWidth, i32, ptr } from "../cuda/launch-args.ts";

/** All numbers are f32. */
export interface ExpertLinearCudaArgs {
  readonly ids: DevicePointer; // i32 [numTokens, numChosen]
  readonly numChoices: number;
  /** Rows of `x` that a choice shares with the token's others: the chosen experts a token, or 1 when each has its own. */
  readonly choicesPerRow: number;
  readonly x: DevicePointer; // [numChoices / choicesPerRow, inputs]
  readonly weight: DevicePointer; // [numExperts, outputs, inputs]
  readonly bias?: DevicePointer | undefined; // [numExperts, outputs]
  readonly out: DevicePointer; // [numChoices, outputs]
  readonly inputs: number;
  readonly outputs: number;
}

const WARPS = 8;

export function launchExpertLinear(stream: KernelStream, args: ExpertLinearCudaArgs): void {
  const { numChoices, inputs, outputs, choicesPerRow } = args;
  expectCount("expertLinear", "choice", numChoices);
  expectWidth("expertLinear", inputs, "f32");
  const kernel = stream.kernel({
    source: "expert-linear/plain-expert-linear.cu",
    name: "plain_expert_linear",
    defines: { ...elemDefines("f32"), ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }) },
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(outputs, WARPS), numChoices, 1] as const;
  const pointers = [ptr(args.x), ptr(args.weight), ptr(args.ids), ptr(args.bias), ptr(args.out)];
  const sizes = [i32(inputs), i32(outputs), i32(choicesPerRow)];
  stream.launch(kernel, grid, [WARPS * 32, 1, 1], 0, [...pointers, ...sizes]);
}
