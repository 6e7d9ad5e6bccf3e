// Quantizing epilogue of a kernel that writes rows: a number is its code times its scale. QUANTIZE_E4M3 or QUANTIZE_I8
// chooses the codes; without them rows are elem_t. The kernel finds one scale per row (per token); with STATIC_SCALE
// one scale is given (per tensor). INTERLEAVED: the order of codes that grouped GEMMs of experts take.
// Source: FP8 E4M3 (Micikevicius et al. 2022), per-token scales of SmoothQuant (Xiao et al. 2022); PTX ISA, cvt.
#pragma once
#include "elem.cuh"

constexpr bool isQuantizedToI8 = IS_SET(QUANTIZE_I8);
constexpr bool isQuantized = IS_SET(QUANTIZE_E4M3) || isQuantizedToI8;
constexpr bool hasStaticScale = IS_SET(STATIC_SCALE);
constexpr float codeMax = isQuantizedToI8 ? 127.f : 448.f;

typedef Choose<isQuantized, u8, elem_t> out_t;

// To the nearest, and within a byte.
__device__ __forceinline__ u32 i8_code(float value) { return __float2int_rn(fminf(fmaxf(value, -128.f), 127.f)) & 0xff; }

__device__ __forceinline__ u32 pack_codes(float a, float b, float c, float d) {
  if constexpr (isQuantizedToI8) return i8_code(a) | i8_code(b) << 8 | i8_code(c) << 16 | i8_code(d) << 24;
  return pack_e4m3x4(a, b, c, d);
}

__device__ __forceinline__ void store_codes(u8* at, const float (&values)[4]) {
  *reinterpret_cast<u32*>(at) = pack_codes(values[0], values[1], values[2], values[3]);
}

// Half of sixteen codes that are interleaved 0 1 8 9, 2 3 10 11, and so on: an A fragment's words (skinny-tile.cuh).
__device__ __forceinline__ void store_interleaved(u8* at, const float (&values)[8]) {
  const u64 place = reinterpret_cast<u64>(at);
  u16* pairs = reinterpret_cast<u16*>(place & ~15ull) + (place >> 3 & 1);
#pragma unroll
  for (int i = 0; i < 4; i++) pairs[2 * i] = pack_e4m3(values[2 * i], values[2 * i + 1]);
}

__device__ __forceinline__ void store_codes(u8* at, const float (&values)[8]) {
  if constexpr (IS_SET(INTERLEAVED)) return store_interleaved(at, values);
  *reinterpret_cast<uint2*>(at) = make_uint2(pack_codes(values[0], values[1], values[2], values[3]),
                                             pack_codes(values[4], values[5], values[6], values[7]));
}

// One vector of results, already times 1/scale where they are quantized.
__device__ __forceinline__ void store_out(elem_t* at, const float (&values)[ELEM_VEC]) { store_vec(at, values); }
__device__ __forceinline__ void store_out(u8* at, const float (&values)[ELEM_VEC]) { store_codes(at, values); }

template <int N>
__device__ __forceinline__ float largest_size(const float (&values)[N][ELEM_VEC]) {
  float largest = 0.f;
#pragma unroll
  for (int v = 0; v < N; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) largest = fmaxf(largest, fabsf(values[v][i]));
  return largest;
}

// 1/scale of a row that the block holds. A scale that is found is written to `scale`.
template <int N>
__device__ __forceinline__ float inverse_scale(float* scale, const float (&values)[N][ELEM_VEC],
                                               float* scratch /* [32] */) {
  if constexpr (hasStaticScale) return 1.f / *scale;
  // A row of zeros keeps a scale that can be divided by.
  const float found = fmaxf(block_max(largest_size(values), scratch) / codeMax, 1e-12f);
  if (threadIdx.x == 0) *scale = found;
  return 1.f / found;
}

// Writes a row that the block holds in registers, thread t the vectors t, t + blockDim, ... `scales`: [numRows], or [1]
// when given.
template <int N>
__device__ __forceinline__ void store_row(out_t* row, float* scales, float (&values)[N][ELEM_VEC], int numVectors,
                                          float* scratch /* [32] */) {
  if constexpr (isQuantized) {
    const float inverse = inverse_scale(hasStaticScale ? scales : scales + blockIdx.x, values, scratch);
#pragma unroll
    for (int v = 0; v < N; v++)
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) values[v][i] *= inverse;
  }
#pragma unroll
  for (int v = 0; v < N; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    if (at < numVectors) store_out(row + at * ELEM_VEC, values[v]);
  }
}
