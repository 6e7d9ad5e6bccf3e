/**
 * Launches gather-rows.cu: rows of a table by their ids, times a factor, for the embedding and for the rows of logits.
 * Source: ggml.h, ggml_get_rows.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  f32,
  i32,
  ptr,
} from "../cuda/launch-args.ts";

export interface GatherRowsCudaArgs {
  readonly type: ElemType;
  readonly table: DevicePointer; // [numRows, width]
  readonly ids: DevicePointer; // i32 [count]; one outside the table gives a row of zeros
  /** i32 ids that the step before has chosen: an id of -2 - r stands for the one of row r. */
  readonly carried?: DevicePointer | undefined;
  readonly out: DevicePointer; // [count, width]
  readonly numRows: number;
  readonly count: number;
  readonly width: number;
  readonly scale?: number | undefined;
}

const THREADS = 128;

export function launchGatherRows(stream: KernelStream, args: GatherRowsCudaArgs): void {
  const { type, count, width } = args;
  expectCount("gatherRows", "id", count);
  expectWidth("gatherRows", width, type);
  const kernel = stream.kernel({
    source: "gather-rows/gather-rows.cu",
    name: "gather_rows",
    defines: { ...elemDefines(type), ...(args.carried === undefined ? {} : { HAS_CARRIED: 1 }) },
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [ceilDiv(width / ELEM_VEC[type], THREADS), count, 1], [THREADS, 1, 1], 0, [
    ptr(args.table),
    ptr(args.ids),
    ptr(args.carried),
    ptr(args.out),
    i32(args.numRows),
    i32(width),
    f32(args.scale ?? 1),
  ]);
}
