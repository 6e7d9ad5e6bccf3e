/** Bandwidth of the copies of cache blocks. Source: copy-block.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { launchCopyBlock } from "./copy-block.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [{ name: "copy-block", benches }];

function benches(context: CudaCheckContext): readonly CudaBench[] {
  const [numPieces, pieceBytes, numBlocks] = [64, 65_536, 64];
  const stride = numBlocks * pieceBytes;
  const cache = context.zeros(numPieces * stride);
  const side = context.zeros(numPieces * pieceBytes);
  const shape = { numPieces, pieceBytes, fromStride: stride, to: side, toStride: pieceBytes };
  return [
    {
      name: "a block of 4 MiB",
      bytes: 2 * numPieces * pieceBytes,
      flops: 0,
      launch: (round): void =>
        launchCopyBlock(context.stream, { ...shape, from: cache + BigInt((round % numBlocks) * pieceBytes) }),
    },
  ];
}
