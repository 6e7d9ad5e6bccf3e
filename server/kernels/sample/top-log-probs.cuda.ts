/**
 * Launches top-log-probs.cu: the most likely tokens of the rows that ask for them, and their log-probabilities.
 * Source: top-log-probs.cu.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { type ElemType, elemDefines, i32, ptr } from "../cuda/launch-args.ts";
import { expectLogitRows } from "./logit-rows.ts";

export interface TopLogProbsCudaArgs {
  /** Type of the logits. */
  readonly type: ElemType;
  readonly logits: DevicePointer; // [numRows, rowStride]
  readonly numRows: number;
  readonly vocab: number;
  /** Elements from row to row, a multiple of a 16-byte access. */
  readonly rowStride: number;
  readonly params: DevicePointer; // [numRows] of SAMPLE_PARAMS_BYTES, of which `numTop` is read
  readonly ids: DevicePointer; // i32 [numRows, MAX_TOP]
  readonly logProbs: DevicePointer; // f32 [numRows, MAX_TOP]
}

const THREADS = 1024;

export function launchTopLogProbs(stream: KernelStream, args: TopLogProbsCudaArgs): void {
  const { type, numRows, vocab, rowStride } = args;
  expectLogitRows("top-log-probs", args);
  const kernel = stream.kernel({
    source: "sample/top-log-probs.cu",
    name: "top_log_probs",
    defines: elemDefines(type),
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [numRows, 1, 1], [THREADS, 1, 1], 0, [
    ptr(args.logits),
    ptr(args.params),
    ptr(args.ids),
    ptr(args.logProbs),
    i32(rowStride),
    i32(vocab),
  ]);
}
