/**
 * How fast a GPU kernel is beside the rooflines of its device. Each op exports `cudaBenches`; a program on a machine with
 * a GPU runs them all. Knows no driver. Source: roofline model (Williams, Waterman and Patterson 2009).
 */
import type { CudaBench, CudaCheckContext } from "./cuda-check.ts";

export type { CudaBench } from "./cuda-check.ts";

/** The timed cases of one op in one form. */
export interface CudaBenchSet {
  readonly name: string;
  /** It uses WGMMA, which sm_90a alone has. */
  readonly needsWgmma?: boolean;
  readonly benches: (context: CudaCheckContext) => readonly CudaBench[];
}

/** Measured on the device: a copy in its memory, reads and writes together, and a large bf16 GEMM. */
export interface Rooflines {
  readonly gbPerSecond: number;
  readonly tflops: number;
}

export interface RooflineShare {
  readonly us: number;
  readonly gbPerSecond: number;
  readonly tflops: number;
  /** The roofline that allows less. */
  readonly bound: "bytes" | "flops";
  /** The time that this roofline allows, over the time taken. */
  readonly share: number;
}

/** Above 1 when data stays in the L2 cache, or codes multiply faster than bf16. */
export function rooflineShare(
  { bytes, flops }: Pick<CudaBench, "bytes" | "flops">,
  seconds: number,
  rooflines: Rooflines,
): RooflineShare {
  const bytesSeconds = bytes / (rooflines.gbPerSecond * 1e9);
  const flopsSeconds = flops / (rooflines.tflops * 1e12);
  return {
    us: seconds * 1e6,
    gbPerSecond: bytes / seconds / 1e9,
    tflops: flops / seconds / 1e12,
    bound: flopsSeconds > bytesSeconds ? "flops" : "bytes",
    share: Math.max(bytesSeconds, flopsSeconds) / seconds,
  };
}
