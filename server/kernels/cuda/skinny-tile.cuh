// A warp's part of a skinny GEMM: tiles of 16 outputs by 128 bytes of their weights, read from shared memory as
// mma.sync A fragments. The order of inputs within a step is free as long as both operands share it. A thread therefore
// takes 16 consecutive bytes of a weight row, and the inputs of x that belong to them.
// WEIGHT_E4M3: codes, converted to bf16 that is 2^120 too small, or with X_F16 to f16; else bf16. Source: PTX ISA,
// mma.sync; FP8 E4M3 (Micikevicius et al. 2022).
#pragma once
#include "mma.cuh"

#if defined(WEIGHT_E4M3)
#define RUN 32 // inputs that a thread takes of a chunk, in two pieces of 16 bytes of weights
#else
#define RUN 16
#endif
#define PIECE (RUN / 2)
#define CHUNK (4 * RUN)
#define STEPS (RUN / 4)
// Stage of one warp: a line of each row.
#define LINE 128
#define TILE_STAGE_BYTES (16 * LINE)

__device__ __forceinline__ u32 word_of(const uint4 (&run)[2], int i) {
  const uint4& four = run[i >> 2];
  return (i & 3) == 0 ? four.x : (i & 3) == 1 ? four.y : (i & 3) == 2 ? four.z : four.w;
}

#if defined(WEIGHT_E4M3) && defined(X_F16)
#define UNDO_SPREAD 1.f
#elif defined(WEIGHT_E4M3)
// Two codes as bf16, 2^120 too small: sign, exponent and fraction only move to their places.
__device__ __forceinline__ u32 spread(u32 codes, u32 selector) {
  const u32 wide = __byte_perm(codes, 0, selector);
  return ((wide >> 4) & 0x07f007f0u) | (wide & 0x80008000u);
}
#define UNDO_SPREAD 1.329227995784916e36f
#endif

// The four registers of an A fragment: inputs 4 * step to 4 * step + 3 of those that the thread takes.
__device__ __forceinline__ void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) {
#if defined(WEIGHT_E4M3) && defined(X_F16)
  const u32 lowCodes = word_of(low, step), highCodes = word_of(high, step);
  a[0] = e4m3x2_to_f16x2((u16)lowCodes);
  a[1] = e4m3x2_to_f16x2((u16)highCodes);
  a[2] = e4m3x2_to_f16x2((u16)(lowCodes >> 16));
  a[3] = e4m3x2_to_f16x2((u16)(highCodes >> 16));
#elif defined(WEIGHT_E4M3)
  const u32 lowCodes = word_of(low, step), highCodes = word_of(high, step);
  a[0] = spread(lowCodes, 0x1404);
  a[1] = spread(highCodes, 0x1404);
  a[2] = spread(lowCodes, 0x3424);
  a[3] = spread(highCodes, 0x3424);
#else
  a[0] = word_of(low, 2 * step);
  a[1] = word_of(high, 2 * step);
  a[2] = word_of(low, 2 * step + 1);
  a[3] = word_of(high, 2 * step + 1);
#endif
}

// Eight lanes copy a line. Odd rows swap the halves of their lines, so that the eight
// threads that read at a time find eight different groups of banks.
__device__ __forceinline__ u32 line_place(int row, int piece) { return row * LINE + (piece ^ ((row & 1) << 2)) * 16; }

// Loads the thread's part of the tile: rows g and g + 8.
__device__ __forceinline__ void load_lines(const u8* tile, int g, int t, uint4 (&low)[2], uint4 (&high)[2]) {
#pragma unroll
  for (int j = 0; j < 2; j++) {
    const u8* at = tile + line_place(g, t + 4 * j);
    low[j] = *reinterpret_cast<const uint4*>(at);
    high[j] = *reinterpret_cast<const uint4*>(at + 8 * LINE);
  }
}

// Offset in a chunk of the i-th eight inputs that the thread takes of a row of x.
__device__ __forceinline__ int run_place(int t, int i) { return t * PIECE + (8 * i / PIECE) * 4 * PIECE + 8 * i % PIECE; }
