// A warp's part of a skinny GEMM: tiles of 16 outputs by 128 bytes of their weights, read from shared memory as
// mma.sync A fragments. The order of inputs within a step is free as long as both operands share it. A thread therefore
// takes 16 consecutive bytes of a weight row, and the inputs of x that belong to them.
// Source: PTX ISA, mma.sync; FP8 E4M3 (Micikevicius et al. 2022).
#pragma once
#include "mma.cuh"

// Stage of one warp: a line of each row.
#define LINE 128
#define TILE_STAGE_BYTES (16 * LINE)

__device__ __forceinline__ u32 word_of(const uint4 (&run)[2], int i) {
  const uint4& four = run[i >> 2];
  return (i & 3) == 0 ? four.x : (i & 3) == 1 ? four.y : (i & 3) == 2 ? four.z : four.w;
}

__device__ __forceinline__ u32 word_at(const uint4* runs, int i) {
  const uint4& four = runs[i >> 2];
  return (i & 3) == 0 ? four.x : (i & 3) == 1 ? four.y : (i & 3) == 2 ? four.z : four.w;
}

// Inputs that a thread takes of a chunk of four lanes, in two pieces of 16 bytes of weights.
template <int inputs>
struct WeightRun {
  static constexpr int run = inputs, piece = run / 2, chunk = 4 * run, steps = run / 4;

  // Offset in a chunk of the i-th eight inputs that the thread takes of a row of x.
  __device__ __forceinline__ static int place(int t, int i) {
    return t * piece + (8 * i / piece) * 4 * piece + 8 * i % piece;
  }
};

// Formats of weights. fragment() gives the four registers of an A fragment: inputs 4 * step to 4 * step + 3 of those that
// the thread takes. Sums are to be multiplied by `factor`.
struct Bf16Weights : WeightRun<16> {
  static constexpr float factor = 1.f;

  __device__ __forceinline__ static void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) {
    a[0] = word_of(low, 2 * step);
    a[1] = word_of(high, 2 * step);
    a[2] = word_of(low, 2 * step + 1);
    a[3] = word_of(high, 2 * step + 1);
  }
  // Words of x that go with the fragment: its registers 0 and 1, and 2 and 3.
  __device__ __forceinline__ static u32 x_low(const uint4* runs, int step) { return word_at(runs, 2 * step); }
  __device__ __forceinline__ static u32 x_high(const uint4* runs, int step) { return word_at(runs, 2 * step + 1); }
};

// FP8 codes as bf16 that is 2^120 too small: sign, exponent and fraction only move to their places.
struct E4m3AsBf16 : WeightRun<32> {
  static constexpr float factor = 1.329227995784916e36f;

  __device__ __forceinline__ static u32 spread(u32 codes, u32 selector) {
    const u32 wide = __byte_perm(codes, 0, selector);
    return ((wide >> 4) & 0x07f007f0u) | (wide & 0x80008000u);
  }
  __device__ __forceinline__ static void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) {
    const u32 lowCodes = word_of(low, step), highCodes = word_of(high, step);
    a[0] = spread(lowCodes, 0x1404);
    a[1] = spread(highCodes, 0x1404);
    a[2] = spread(lowCodes, 0x3424);
    a[3] = spread(highCodes, 0x3424);
  }
};

// The same codes, sixteen inputs in the order 0 1 8 9, 2 3 10 11, 4 5 12 13, 6 7 14 15 (quantize.cu, INTERLEAVED): a word
// is what a lane holds of an A fragment, so that WGMMA takes them too.
struct InterleavedE4m3 : E4m3AsBf16 {
  __device__ __forceinline__ static u32 x_low(const uint4* runs, int step) {
    return word_at(runs, 8 * (step >> 2) + (step & 3));
  }
  __device__ __forceinline__ static u32 x_high(const uint4* runs, int step) {
    return word_at(runs, 8 * (step >> 2) + (step & 3) + 4);
  }
};

// MXFP4: E2M1 codes, of which 32 inputs share a power of two (pack-mxfp4.ts has the order of bits). A code's bits as those
// of bf16 are 2^126 too small; block scales come 2^63 too large, so that neither leaves bf16.
// Source: OCP Microscaling Formats (MX) v1.0, sections 5.2 and 5.3.3.
struct Mxfp4Weights : WeightRun<64> {
  static constexpr float factor = 9.223372036854775808e18f; // 2^63

  // Two codes of a word: sign, exponent and fraction to their places.
  __device__ __forceinline__ static u32 spread(u32 word, int pair) {
    if (pair < 3) return (word << (3 * pair)) & 0x81c081c0u;
    return ((word << 1) & 0x80008000u) | ((word >> 4) & 0x00c000c0u) | ((word >> 5) & 0x01000100u);
  }
  __device__ __forceinline__ static u32 scaled(u32 word, int pair, u32 scale) {
    u32 two;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(spread(word, pair)), "r"(scale), "r"(0x80008000u));
    return two;
  }
  // A word has the codes of two steps.
  __device__ __forceinline__ static u32 x_low(const uint4* runs, int step) {
    return word_at(runs, 16 * (step >> 3) + 8 * (step & 1) + (step >> 1 & 3));
  }
  __device__ __forceinline__ static u32 x_high(const uint4* runs, int step) {
    return word_at(runs, 16 * (step >> 3) + 8 * (step & 1) + (step >> 1 & 3) + 4);
  }
};

// Scales of blocks of inputs that a thread needs for the rows g and g + 8 of a tile; most formats have none.
template <typename Weights>
struct BlockScales {
  __device__ __forceinline__ void load(const void*, u64, u64, int, int, int) {}
  __device__ __forceinline__ void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) const {
    Weights::fragment(low, high, step, a);
  }
};

template <>
struct BlockScales<Mxfp4Weights> {
  u32 low[2], high[2]; // each twice, as bf16

  // `scales`: u8 [rows, inputs / 32], exponents of bf16.
  __device__ __forceinline__ void load(const void* scales, u64 lowRow, u64 highRow, int chunk, int t, int inputs) {
    const int numBlocks = inputs / 32;
    const u8* blocks = reinterpret_cast<const u8*>(scales);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int block = chunk * 8 + t + 4 * i;
      const bool isThere = block < numBlocks;
      low[i] = isThere ? blocks[lowRow * numBlocks + block] * 0x00800080u : 0;
      high[i] = isThere ? blocks[highRow * numBlocks + block] * 0x00800080u : 0;
    }
  }
  __device__ __forceinline__ void fragment(const uint4 (&lowCodes)[2], const uint4 (&highCodes)[2], int step,
                                           u32 (&a)[4]) const {
    const u32 lowWord = word_of(lowCodes, step >> 1), highWord = word_of(highCodes, step >> 1);
    const u32 lowScale = low[step >> 3], highScale = high[step >> 3];
    const int pair = 2 * (step & 1);
    a[0] = Mxfp4Weights::scaled(lowWord, pair, lowScale);
    a[1] = Mxfp4Weights::scaled(highWord, pair, highScale);
    a[2] = Mxfp4Weights::scaled(lowWord, pair + 1, lowScale);
    a[3] = Mxfp4Weights::scaled(highWord, pair + 1, highScale);
  }
};

// FP8 codes as f16, exactly.
struct E4m3AsF16 : WeightRun<32> {
  static constexpr float factor = 1.f;

  __device__ __forceinline__ static void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) {
    const u32 lowCodes = word_of(low, step), highCodes = word_of(high, step);
    a[0] = e4m3x2_to_f16x2((u16)lowCodes);
    a[1] = e4m3x2_to_f16x2((u16)highCodes);
    a[2] = e4m3x2_to_f16x2((u16)(lowCodes >> 16));
    a[3] = e4m3x2_to_f16x2((u16)(highCodes >> 16));
  }
};

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
