/**
 * Launches route-experts.cu: softmax over all experts, the largest of them, and their weights. Source: Shazeer et al.
 * 2017; Fedus et al. 2021.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, type ElemType, elemDefines, expectCount, i32, ptr } from "../cuda/launch-args.ts";

/** The choices of each expert, for grouped GEMMs. */
export interface ExpertLists {
  /** Zeros before the router; launchMixExperts() leaves zeros. */
  readonly counts: DevicePointer; // i32 [numExperts]
  /** A choice is its index in the ids of the router. */
  readonly order: DevicePointer; // i32 [numExperts, numTokens]
}

export interface RouteExpertsCudaArgs {
  /** Type of the logits. */
  readonly type: ElemType;
  readonly logits: DevicePointer; // [numTokens, numExperts]
  /** Added to the logits, in their type. */
  readonly bias?: DevicePointer | undefined; // [numExperts]
  readonly ids: DevicePointer; // i32 [numTokens, numChosen], most probable first
  readonly weights: DevicePointer; // f32 [numTokens, numChosen]
  readonly lists?: ExpertLists | undefined;
  readonly numTokens: number;
  readonly numExperts: number;
  readonly numChosen: number;
  readonly isRenormalized: boolean;
}

const WARPS = 4;
/** A lane keeps the weight of one choice. */
const MAX_CHOSEN = 32;

export function launchRouteExperts(stream: KernelStream, args: RouteExpertsCudaArgs): void {
  const { type, numTokens, numExperts, numChosen, isRenormalized } = args;
  expectCount("routeExperts", "token", numTokens);
  const most = Math.min(numExperts, MAX_CHOSEN);
  if (!Number.isInteger(numChosen) || numChosen < 1 || numChosen > most) {
    throw new Error(`routeExperts: expected 1 to ${most} chosen experts, got ${numChosen}`);
  }
  const kernel = stream.kernel({
    source: "route-experts/route-experts.cu",
    name: "route_experts",
    defines: {
      ...elemDefines(type),
      EXPERTS: numExperts,
      ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }),
      ...(args.lists === undefined ? {} : { APPENDS_LISTS: 1 }),
    },
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [ceilDiv(numTokens, WARPS), 1, 1], [WARPS * 32, 1, 1], 0, [
    ptr(args.logits),
    ptr(args.bias),
    ptr(args.ids),
    ptr(args.weights),
    ptr(args.lists?.counts),
    ptr(args.lists?.order),
    i32(numTokens),
    i32(numChosen),
    i32(isRenormalized ? 1 : 0),
  ]);
}
