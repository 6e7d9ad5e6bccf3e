// Codes of weights as A fragments of WGMMA: a warp group reads tiles of 64 matrix rows by 128 bytes from swizzled lines of shared memory
// and converts them to bf16 in registers. Warp w has the rows 16 * w to 16 * w + 15, as mma.sync.m16n8k16 does.
// Sources: PTX ISA, register fragments of wgmma.mma_async.m64k16 and ldmatrix; OCP Microscaling Formats (MX) v1.0.
#pragma once
#include "skinny-tile.cuh"
#include "wgmma.cuh"

// Scales as they are stored: u8 [numRows, inputs / 32] of MXFP4.
struct StoredScales {
  const void* scales;
  int numRows, inputs;
};

// A part of a tile of codes as A fragments: 64 inputs of 16 matrix rows, from swizzled lines.
typedef u32 Fragments[4][4];

// The pieces `piece` and `piece` + 1 of the lines: words 0 and 1 of rows g and g + 8, words 2 and 3 of the next piece.
__device__ __forceinline__ void load_words(u32 tile, int piece, u32 (&words)[4]) {
  const int lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15);
  ldmatrix_x4(words, tile + row * LINE + (((piece + (lane >> 4)) ^ (row & 7)) << 4));
}

// Scales of blocks of a tile that a thread needs; FP8 codes have none.
template <typename Weights>
struct TileScales {
  __device__ __forceinline__ void load(const StoredScales&, int, int) {}

  __device__ __forceinline__ void fragments(u32 tile, int part, Fragments& a) const {
#pragma unroll
    for (int pair = 0; pair < 2; pair++) {
      u32 words[4];
      load_words(tile, 4 * part + 2 * pair, words);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        u32(&to)[4] = a[2 * pair + i];
        to[0] = E4m3AsBf16::spread(words[2 * i], 0x1404), to[1] = E4m3AsBf16::spread(words[2 * i + 1], 0x1404);
        to[2] = E4m3AsBf16::spread(words[2 * i], 0x3424), to[3] = E4m3AsBf16::spread(words[2 * i + 1], 0x3424);
      }
    }
  }
};

// A piece of 16 bytes is a block of 32 inputs.
template <>
struct TileScales<Mxfp4Weights> {
  u32 scales[2][2]; // of the rows g and g + 8: a byte for each of the line's eight blocks

  // For a tile that starts at row `row`. Rows behind the last one repeat it.
  __device__ __forceinline__ void load(const StoredScales& stored, int row, int chunk) {
    const int numBlocks = stored.inputs / 32, lane = threadIdx.x & 31;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int own = min(row + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2) + 8 * h, stored.numRows - 1);
      const u8* of = reinterpret_cast<const u8*>(stored.scales) + (u64)own * numBlocks;
#pragma unroll
      for (int word = 0; word < 2; word++) {
        scales[h][word] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int block = 8 * chunk + 4 * word + i;
          if (block < numBlocks) scales[h][word] |= of[block] << 8 * i;
        }
      }
    }
  }

  // The scale of a block, twice as bf16.
  __device__ __forceinline__ u32 scale(int h, int block) const {
    return (scales[h][block >> 2] >> 8 * (block & 3) & 255) * 0x00800080u;
  }

  __device__ __forceinline__ void fragments(u32 tile, int part, Fragments& a) const {
    u32 words[4];
    load_words(tile, 2 * part, words);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const u32 low = scale(0, 2 * part + i), high = scale(1, 2 * part + i);
#pragma unroll
      for (int step = 0; step < 2; step++) {
        u32(&to)[4] = a[2 * i + step];
        to[0] = Mxfp4Weights::scaled(words[2 * i], 2 * step, low);
        to[1] = Mxfp4Weights::scaled(words[2 * i + 1], 2 * step, high);
        to[2] = Mxfp4Weights::scaled(words[2 * i], 2 * step + 1, low);
        to[3] = Mxfp4Weights::scaled(words[2 * i + 1], 2 * step + 1, high);
      }
    }
  }
};
