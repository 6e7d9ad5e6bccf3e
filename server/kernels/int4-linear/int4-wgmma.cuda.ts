/**
 * Launches int4-wgmma.cu: INT4 GEMMs of 9 to 64 rows, on devices with WGMMA. Source: Marlin (Frantar et al. 2024); PTX
 * ISA, wgmma.
 */
import type { KernelStream, TensorMap } from "../../src/device/cuda/kernel-stream.ts";
import { hasWgmma } from "../cuda/device-limits.ts";
import { expectCount, i32, ptr } from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";
import type { Int4CudaWeight, Int4Device, Int4LinearCudaArgs } from "./int4-linear.cuda.ts";
import {
  INT4_CHUNK,
  type Int4WgmmaTileConfig,
  type Int4WgmmaUse,
  int4WgmmaBlocks,
  int4WgmmaSharedBytes,
  planInt4Wgmma,
} from "./int4-wgmma-plan.ts";

const known = new Map<string, Int4WgmmaTileConfig | undefined>();

/** How the GEMM is spread over the device; undefined where the kernel does not serve. */
export function int4WgmmaTileConfig(
  { arch, numSms }: Int4Device,
  numRows: number,
  { outputs, inputs, groupSize }: Pick<Int4CudaWeight, "outputs" | "inputs" | "groupSize">,
  use: Int4WgmmaUse = "whole",
): Int4WgmmaTileConfig | undefined {
  if (!hasWgmma(arch) || groupSize % INT4_CHUNK !== 0) return undefined;
  const key = `${numSms} ${numRows} ${outputs} ${inputs} ${use}`;
  if (!known.has(key)) known.set(key, planInt4Wgmma(numSms, { numRows, outputs, inputs, use }));
  return known.get(key);
}

export interface Int4WgmmaCudaArgs extends Int4LinearCudaArgs {
  /** The first half of the matrix gives what is activated and multiplies what the second gives: half as wide an `out`. */
  readonly gatedBy?: CudaActivation | undefined;
  /** The sums of the splits stay in `partials`, f32 [splits, numRows, outputs], and nothing is written to `out`. */
  readonly keepsPartials?: boolean;
}

export function launchInt4Wgmma(stream: KernelStream, args: Int4WgmmaCudaArgs, form: Int4WgmmaTileConfig): void {
  const { weight, bias, numRows, gatedBy, keepsPartials = false } = args;
  const { outputs, inputs, groupSize, zeros } = weight;
  const { rows, groups, groupTiles, splits, weightStages, rowStages } = form;
  expectCount("int4Wgmma", "row", numRows);
  if (numRows > rows) throw new Error(`int4Wgmma: expected at most ${rows} rows, got ${numRows}`);
  const kernel = stream.kernel({
    source: "int4-linear/int4-wgmma.cu",
    name: "int4_wgmma",
    defines: {
      ROWS: rows,
      WARP_GROUPS: groups,
      GROUP_TILES: groupTiles,
      SPLITS: splits,
      WEIGHT_STAGES: weightStages,
      ROW_STAGES: rowStages,
      GROUP: groupSize,
      ...(zeros === undefined ? {} : { HAS_ZEROS: 1 }),
      ...(bias === undefined ? {} : { HAS_BIAS: 1 }),
      ...(gatedBy === undefined ? {} : { GATED: 1, ACTIVATION: ACTIVATION_NUMBERS[gatedBy] }),
      ...(keepsPartials ? { KEEP_PARTIALS: 1 } : {}),
    },
    usesProgrammaticLaunch: true,
  });
  const x: TensorMap = { address: args.x, rowBytes: 2 * inputs, numRows, pieceRows: rows };
  const numThreads = groups * WARP_GROUP_THREADS + PRODUCER_THREADS;
  stream.launch(kernel, [int4WgmmaBlocks(outputs, form), 1, 1], [numThreads, 1, 1], int4WgmmaSharedBytes(form), [
    { table: x },
    ptr(weight.codes),
    ptr(weight.scales),
    ptr(zeros),
    ptr(bias),
    ptr(args.out),
    ptr(args.partials),
    ptr(args.counters),
    i32(numRows),
    i32(inputs),
    i32(outputs),
  ]);
}

const WARP_GROUP_THREADS = 128;
/** Two warps that ask for weights and for rows. */
const PRODUCER_THREADS = 64;
