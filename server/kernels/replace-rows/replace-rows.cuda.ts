/**
 * Overwrites rows of `x` in place: rows of a prompt table replace embeddings. Source: prompt tuning (Lester et al.
 * 2021).
 */
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

export interface ReplaceRowsCudaArgs {
  readonly type: ElemType;
  readonly x: DevicePointer; // [numRows, width]
  readonly rows: DevicePointer; // i32 [count]; one outside x is skipped
  readonly values: DevicePointer; // [count, width]
  readonly numRows: number;
  readonly count: number;
  readonly width: number;
}

const THREADS = 128;

export function launchReplaceRows(stream: KernelStream, args: ReplaceRowsCudaArgs): void {
  const { type, count, width } = args;
  expectCount("replaceRows", "row", count);
  expectWidth("replaceRows", width, type);
  const kernel = stream.kernel({
    source: "replace-rows/replace-rows.cu",
    name: "replace_rows",
    defines: elemDefines(type),
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(width / ELEM_VEC[type], THREADS), count, 1] as const;
  const pointers = [ptr(args.x), ptr(args.rows), ptr(args.values)];
  stream.launch(kernel, grid, [THREADS, 1, 1], 0, [...pointers, i32(args.numRows), i32(width)]);
}
