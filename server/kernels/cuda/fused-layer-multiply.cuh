// One chunk of a GEMM of the fused layer kernel: 16 outputs of a tile times the rows of x, by one warp.
// Source: PTX ISA, mma.sync.m16n8k16 and m16n8k32, lop3; Marlin (Frantar et al. 2024) for the packed INT4 codes.
#pragma once
#include "fused-layer-rows.cuh"

// Weights as 16-bit fragments. Rows are loaded once for the gate and up.
template <typename Format>
struct FragmentGemm {
  struct Rows {
    uint4 runs[Format::run / 8]; // of row g
  };

  // Columns after the last row are never read.
  template <typename X>
  __device__ __forceinline__ static Rows load_rows(const X& x, const u16* plain, int chunk) {
    const int row = min(x.lane >> 2, x.numRows - 1), t = x.lane & 3;
    Rows rows;
#pragma unroll
    for (int i = 0; i < Format::run / 8; i++) {
      const int at = chunk * CHUNK + Format::place(t, i);
      rows.runs[i] = plain == nullptr ? *reinterpret_cast<const uint4*>(x.kept + row * x.stride() + at)
                                      : __ldcg(reinterpret_cast<const uint4*>(plain + (u64)row * x.inputs + at));
    }
    return rows;
  }

  __device__ __forceinline__ static void multiply(const uint4 (&low)[2], const uint4 (&high)[2], const Rows& rows,
                                                  float (&sums)[4]) {
#pragma unroll
    for (int step = 0; step < Format::steps; step++) {
      u32 a[4];
      Format::fragment(low, high, step, a);
      const uint4& four = rows.runs[step >> 1];
      Format::mma(sums, a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
    }
  }

  template <typename X>
  __device__ __forceinline__ static void multiply(const u8* tile, const X& x, const Rows& rows, bool isKept, int chunk,
                                                  float (&sums)[4]) {
    const int g = x.lane >> 2, t = x.lane & 3;
    uint4 low[2], high[2];
    load_lines(tile, g, t, low, high);
    if constexpr (!hasE4m3Weights) {
      multiply(low, high, rows, sums);
      return;
    }
    float part[4] = {};
    multiply(low, high, rows, part);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = min(2 * t + e, x.numRows - 1);
      const float scale = isKept ? x.scales[row * (x.inputs / GROUP) + chunk] : 1.f;
      sums[e] += scale * part[e];
      sums[2 + e] += scale * part[2 + e];
    }
  }

  // Sums of a warp: row 2 * t + e of x in columns e, for outputs g and g + 8.
  __device__ __forceinline__ static void keep_sums(float* to, int g, int t, const float (&sums)[4]) {
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (2 * t + (e & 1) < ROWS) to[(g + (e >> 1) * 8) * ROWS + 2 * t + (e & 1)] = sums[e];
  }
};

// Weights and x as bytes. Rows are read as they are used.
struct Int4Gemm {
  struct Rows {};

  template <typename X>
  __device__ __forceinline__ static Rows load_rows(const X&, const u16*, int) {
    return {};
  }

  // The upper four bits of each byte, a code of which 8 means zero, as a signed byte: 16 times the number.
  __device__ __forceinline__ static u32 upper_codes(u32 word) {
    u32 codes;
    // (word & 0xf0f0f0f0) ^ 0x80808080 in one instruction, which the compiler makes two.
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(codes) : "r"(word), "r"(0xf0f0f0f0u), "r"(0x80808080u));
    return codes;
  }

  template <typename X>
  __device__ __forceinline__ static void multiply(const u8* tile, const X& x, const Rows&, bool, int chunk,
                                                  float (&sums)[4]) {
    const int lane = x.lane, g = lane >> 2, t = lane & 3;
    const uint4* codes = reinterpret_cast<const uint4*>(tile) + lane;
    // Columns after the last row are never read.
    const u8* from = x.kept + min(g, 2 * x.numRows - 1) * x.stride() + chunk * CHUNK + t * 16;
    const float* scales = x.scales + min(t, x.numRows - 1) * (x.inputs / GROUP) + chunk * (CHUNK / GROUP);
#pragma unroll
    for (int set = 0; set < CHUNK / GROUP; set++) {
      int part[4] = {};
#pragma unroll
      for (int half = 0; half < GROUP / Int4Form::block; half++) {
        const int n = set * (GROUP / Int4Form::block) + half;
        const uint4 four = codes[n * WARP];
        const uint4 b = *reinterpret_cast<const uint4*>(from + n * Int4Form::block);
        const u32 first[4] = {upper_codes(four.x << 4), upper_codes(four.x), upper_codes(four.y << 4), upper_codes(four.y)};
        mma_s8(part, first, b.x, b.y);
        const u32 second[4] = {upper_codes(four.z << 4), upper_codes(four.z), upper_codes(four.w << 4), upper_codes(four.w)};
        mma_s8(part, second, b.z, b.w);
      }
      const u32 pair = reinterpret_cast<const u32*>(tile + Int4Form::scalesAt)[set * 8 + g];
      // Both columns of row t.
      sums[0] += f16_to_float((u16)pair) * scales[set] * (float)(128 * part[0] + part[1]);
      sums[2] += f16_to_float((u16)(pair >> 16)) * scales[set] * (float)(128 * part[2] + part[3]);
    }
  }

  // Sums of a warp: row t of x, for outputs g and g + 8.
  __device__ __forceinline__ static void keep_sums(float* to, int g, int t, const float (&sums)[4]) {
    if (t >= ROWS) return;
    to[g * ROWS + t] = sums[0];
    to[(g + 8) * ROWS + t] = sums[2];
  }
};

// How a warp multiplies, and how it copies weights ahead.
typedef Choose<hasInt4Weights, Int4Gemm, FragmentGemm<Form>> WarpGemm;
