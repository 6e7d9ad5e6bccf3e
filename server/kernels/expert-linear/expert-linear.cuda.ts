/**
 * Launches the grouped GEMM of a mixture of experts on a GPU: first the sort by expert, then tiles. Source: Shazeer et
 * al. 2017; Fedus et al. 2021.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, type ElemType, elemDefines, expectCount, expectWidth, i32, ptr } from "../cuda/launch-args.ts";

export interface GroupByExpertCudaArgs {
  readonly ids: DevicePointer; // i32 [numTokens, numChosen]
  readonly numChoices: number;
  readonly numExperts: number;
  readonly starts: DevicePointer; // i32 [numExperts + 1]
  readonly order: DevicePointer; // i32 [numChoices]
}

export interface ExpertLinearCudaArgs extends GroupByExpertCudaArgs {
  readonly type: ElemType;
  /** Rows of `x` that a choice shares with the token's others: the chosen experts a token, or 1 when each has its own. */
  readonly choicesPerRow: number;
  readonly x: DevicePointer; // [numChoices / choicesPerRow, inputs]
  readonly weight: DevicePointer; // [numExperts, outputs, inputs]
  /** In f32 only. */
  readonly bias?: DevicePointer | undefined; // [numExperts, outputs]
  readonly out: DevicePointer; // [numChoices, outputs]
  readonly inputs: number;
  readonly outputs: number;
}

const GROUP_THREADS = 256;
/** The kernel counts them in f32. */
const MAX_CHOICES = 2 ** 24;
const OUTPUTS = 64;
const STAGES = 3;
const ROW_BYTES = 64 * 2 + 16;
const TILE_SIZES = [8, 16, 32] as const;
const LARGEST_TILE = 64;
const PLAIN_WARPS = 8;

export function launchGroupByExpert(stream: KernelStream, args: GroupByExpertCudaArgs): void {
  const { numChoices, numExperts } = args;
  expectCount("groupByExpert", "choice", numChoices);
  if (numChoices > MAX_CHOICES) throw new Error(`groupByExpert: expected at most ${MAX_CHOICES}, got ${numChoices}`);
  const kernel = stream.kernel({
    source: "expert-linear/group-by-expert.cu",
    name: "group_by_expert",
    defines: {},
    usesProgrammaticLaunch: true,
  });
  const pointers = [ptr(args.ids), ptr(args.starts), ptr(args.order)];
  stream.launch(kernel, [numExperts, 1, 1], [GROUP_THREADS, 1, 1], 0, [...pointers, i32(numChoices)]);
}

/** After `launchGroupByExpert` of the same ids. */
export function launchExpertLinear(stream: KernelStream, args: ExpertLinearCudaArgs): void {
  expectCount("expertLinear", "choice", args.numChoices);
  expectWidth("expertLinear", args.inputs, args.type);
  if (args.bias !== undefined && args.type !== "f32") throw new Error("expertLinear: biases need f32");
  if (args.type === "f32") launchPlain(stream, args);
  else launchTiles(stream, args);
}

function launchTiles(stream: KernelStream, args: ExpertLinearCudaArgs): void {
  const { numChoices, numExperts, inputs, outputs, choicesPerRow } = args;
  // Small enough that most of a tile is filled: the matrices are then read once each.
  const average = numChoices / numExperts;
  const tokens = TILE_SIZES.find((size) => average <= size) ?? LARGEST_TILE;
  const kernel = stream.kernel({
    source: "expert-linear/expert-linear.cu",
    name: "expert_linear",
    defines: { TOKENS: tokens },
    usesProgrammaticLaunch: true,
  });
  // How choices fall is known on the device alone: as many tiles as there can be.
  const maxTiles = Math.min(numChoices, Math.floor(numChoices / tokens) + numExperts);
  const sharedBytes = STAGES * (OUTPUTS + tokens) * ROW_BYTES;
  stream.launch(kernel, [ceilDiv(outputs, OUTPUTS), maxTiles, 1], [128, 1, 1], sharedBytes, [
    ptr(args.x),
    ptr(args.weight),
    ptr(args.starts),
    ptr(args.order),
    ptr(args.out),
    i32(numExperts),
    i32(inputs),
    i32(outputs),
    i32(choicesPerRow),
  ]);
}

function launchPlain(stream: KernelStream, args: ExpertLinearCudaArgs): void {
  const { type, numChoices, inputs, outputs, choicesPerRow } = args;
  const kernel = stream.kernel({
    source: "expert-linear/plain-expert-linear.cu",
    name: "plain_expert_linear",
    defines: { ...elemDefines(type), ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }) },
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(outputs, PLAIN_WARPS), numChoices, 1] as const;
  const pointers = [ptr(args.x), ptr(args.weight), ptr(args.ids), ptr(args.bias), ptr(args.out)];
  const sizes = [i32(inputs), i32(outputs), i32(choicesPerRow)];
  stream.launch(kernel, grid, [PLAIN_WARPS * 32, 1, 1], 0, [...pointers, ...sizes]);
}
