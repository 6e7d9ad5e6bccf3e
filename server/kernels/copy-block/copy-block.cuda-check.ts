/**
 * Copies of cache blocks: gathered from all layers, scattered into another block, and from block to block. Source:
 * copy-block.cu.
 */
import { type CudaCheck, type CudaCheckContext, shareOfDifferences } from "../testing/cuda-check.ts";
import { seededInts } from "../testing/cuda-check-data.ts";
import { launchCopyBlock } from "./copy-block.cuda.ts";

const [NUM_PIECES, NUM_BLOCKS] = [6, 5];

export const cudaChecks: readonly CudaCheck[] = [16, 4128].map((pieceBytes) => ({
  name: `copy-block of pieces of ${pieceBytes} bytes`,
  maxError: 0,
  run: (context: CudaCheckContext) => run(context, pieceBytes),
}));

/** Block 1 by way of the side to block 3, and block 0 to block 4. */
async function run(context: CudaCheckContext, pieceBytes: number): Promise<number> {
  const stride = NUM_BLOCKS * pieceBytes;
  const cache = Uint8Array.from(seededInts(NUM_PIECES * stride, 1, 256));
  const at = context.upload(cache);
  const side = context.allocate(NUM_PIECES * pieceBytes);
  const block = (index: number): bigint => at + BigInt(index * pieceBytes);
  const shape = { numPieces: NUM_PIECES, pieceBytes };
  const { stream } = context;
  launchCopyBlock(stream, { ...shape, from: block(1), fromStride: stride, to: side, toStride: pieceBytes });
  launchCopyBlock(stream, { ...shape, from: side, fromStride: pieceBytes, to: block(3), toStride: stride });
  launchCopyBlock(stream, { ...shape, from: block(0), fromStride: stride, to: block(4), toStride: stride });
  const result = new Uint8Array(cache.length);
  await context.download(at, result);
  for (let piece = 0; piece < NUM_PIECES; piece++) {
    const first = piece * stride;
    for (const [from, to] of [
      [1, 3],
      [0, 4],
    ] as const) {
      cache.copyWithin(first + to * pieceBytes, first + from * pieceBytes, first + (from + 1) * pieceBytes);
    }
  }
  return shareOfDifferences(result, cache);
}

/** A block of 32 tokens of 8 billion weights in bf16. */
