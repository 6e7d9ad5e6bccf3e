/**
 * Launches copy-block.cu: copies of a cache block on a GPU, all layers in one launch. Source: PagedAttention (Kwon et
 * al. 2023).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, expectCount, i32, ptr } from "../cuda/launch-args.ts";

export interface CopyBlockCudaArgs {
  /** Address of the first piece; the others follow `stride` bytes apart. */
  readonly from: DevicePointer;
  readonly fromStride: number;
  readonly to: DevicePointer;
  readonly toStride: number;
  readonly numPieces: number;
  readonly pieceBytes: number;
}

const THREADS = 256;
const ACCESS_BYTES = 16;

export function launchCopyBlock(stream: KernelStream, args: CopyBlockCudaArgs): void {
  const { from, to, fromStride, toStride, numPieces, pieceBytes } = args;
  expectCount("copyBlock", "piece", numPieces);
  if (pieceBytes < ACCESS_BYTES || [pieceBytes, fromStride, toStride].some((bytes) => bytes % ACCESS_BYTES !== 0)) {
    throw new Error(`copyBlock: expected pieces of a multiple of ${ACCESS_BYTES} bytes, got ${pieceBytes}`);
  }
  const kernel = stream.kernel({
    source: "copy-block/copy-block.cu",
    name: "copy_block",
    defines: {},
    usesProgrammaticLaunch: true,
  });
  const strides = [{ i64: BigInt(fromStride) }, { i64: BigInt(toStride) }];
  const grid = [ceilDiv(pieceBytes / ACCESS_BYTES, THREADS), numPieces, 1] as const;
  stream.launch(kernel, grid, [THREADS, 1, 1], 0, [ptr(from), ptr(to), ...strides, i32(pieceBytes)]);
}
