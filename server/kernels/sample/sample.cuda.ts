/**
 * Launches sample.cu: the next token of each row of logits, and its log-probability under the model's distribution.
 * Source: sample.cu.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { type ElemType, elemDefines, i32, ptr } from "../cuda/launch-args.ts";
import { expectLogitRows } from "./logit-rows.ts";

export interface SampleCudaArgs {
  /** Type of the logits. */
  readonly type: ElemType;
  readonly logits: DevicePointer; // [numRows, rowStride]
  readonly numRows: number;
  readonly vocab: number;
  /** Elements from row to row, a multiple of a 16-byte access; what lies behind `vocab` is not looked at. */
  readonly rowStride: number;
  readonly params: DevicePointer; // [numRows] of SAMPLE_PARAMS_BYTES
  /** u16 [.., vocab]; the chosen token is counted in. Not read where no row names a row of it. */
  readonly countTable?: DevicePointer | undefined;
  readonly biasTable?: DevicePointer | undefined; // f32 [.., vocab]
  readonly maskTable?: DevicePointer | undefined; // u32 [.., ceil(vocab / 32)]
  readonly tokens: DevicePointer; // i32 [numRows]; -1 where there is nothing to choose by
  readonly logProbs: DevicePointer; // f32 [numRows]
}

const THREADS = 1024;

export function launchSample(stream: KernelStream, args: SampleCudaArgs): void {
  const { type, numRows, vocab, rowStride } = args;
  expectLogitRows("sample", args);
  const kernel = stream.kernel({
    source: "sample/sample.cu",
    name: "sample",
    defines: elemDefines(type),
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [numRows, 1, 1], [THREADS, 1, 1], 0, [
    ptr(args.logits),
    ptr(args.params),
    ptr(args.countTable),
    ptr(args.biasTable),
    ptr(args.maskTable),
    ptr(args.tokens),
    ptr(args.logProbs),
    i32(rowStride),
    i32(vocab),
  ]);
}
