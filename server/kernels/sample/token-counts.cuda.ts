/** Launches token-counts.cu: rows of token counts for sample.cu, from lists of tokens. Source: token-counts.cu. */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { elemDefines, expectCount, i32, ptr } from "../cuda/launch-args.ts";

export interface TokenCountsCudaArgs {
  readonly table: DevicePointer; // u16 [.., vocab]
  readonly rows: DevicePointer; // i32 [numRows, 3]: row of the table, first entry, end
  readonly entries: DevicePointer; // i32 [.., 2]: token, and what its place gets
  readonly numRows: number;
  /** A multiple of 4. */
  readonly vocab: number;
}

const THREADS = 1024;

export function launchTokenCounts(stream: KernelStream, args: TokenCountsCudaArgs): void {
  const { numRows, vocab } = args;
  expectCount("tokenCounts", "row", numRows);
  if (vocab <= 0 || vocab % 4 !== 0) throw new Error(`tokenCounts: expected a multiple of 4 tokens, got ${vocab}`);
  const kernel = stream.kernel({ source: "sample/token-counts.cu", name: "token_counts", defines: elemDefines("f32") });
  const pointers = [ptr(args.table), ptr(args.rows), ptr(args.entries)];
  stream.launch(kernel, [numRows, 1, 1], [THREADS, 1, 1], 0, [...pointers, i32(vocab)]);
}
