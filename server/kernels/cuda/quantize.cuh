// Quantizing epilogue of a kernel that writes rows: a number is its code times its scale. QUANTIZE_E4M3 or QUANTIZE_I8
// chooses the codes; without them rows are elem_t. The kernel finds one scale per row (per token); with STATIC_SCALE
// one scale is given (per tensor).
// Source: FP8 E4M3 (Micikevicius et al. 2022), per-token scales of SmoothQuant (Xiao et al. 2022); PTX ISA, cvt.
#pragma once
#include "elem.cuh"

#if defined(QUANTIZE_E4M3)
typedef u8 out_t;
#define CODE_MAX 448.f
#elif defined(QUANTIZE_I8)
typedef u8 out_t;
#define CODE_MAX 127.f
#else
typedef elem_t out_t;
#endif

#if defined(CODE_MAX)
__device__ __forceinline__ u32 pack_codes(float a, float b, float c, float d) {
#if defined(QUANTIZE_E4M3)
  return pack_e4m3x4(a, b, c, d);
#else
  // To the nearest, and within a byte.
  const int codes[4] = {__float2int_rn(fminf(fmaxf(a, -128.f), 127.f)), __float2int_rn(fminf(fmaxf(b, -128.f), 127.f)),
                        __float2int_rn(fminf(fmaxf(c, -128.f), 127.f)), __float2int_rn(fminf(fmaxf(d, -128.f), 127.f))};
  return (codes[0] & 0xff) | (codes[1] & 0xff) << 8 | (codes[2] & 0xff) << 16 | (codes[3] & 0xff) << 24;
#endif
}
#endif

// One vector of results, already times 1/scale where they are quantized.
__device__ __forceinline__ void store_out(out_t* at, const float (&values)[ELEM_VEC]) {
#if !defined(CODE_MAX)
  store_vec(at, values);
#elif ELEM_VEC == 8
  *reinterpret_cast<uint2*>(at) = make_uint2(pack_codes(values[0], values[1], values[2], values[3]),
                                             pack_codes(values[4], values[5], values[6], values[7]));
#else
  *reinterpret_cast<u32*>(at) = pack_codes(values[0], values[1], values[2], values[3]);
#endif
}

// Writes a row that the block holds in registers, thread t the vectors t, t + blockDim, ...
template <int N>
__device__ __forceinline__ void store_row(out_t* row, float* scale, float (&values)[N][ELEM_VEC], int numVectors,
                                          float* scratch /* [32] */) {
#if defined(CODE_MAX)
#if defined(STATIC_SCALE)
  const float inverse = 1.f / *scale;
#else
  float largest = 0.f;
#pragma unroll
  for (int v = 0; v < N; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) largest = fmaxf(largest, fabsf(values[v][i]));
  largest = block_max(largest, scratch);
  // A row of zeros keeps a scale that can be divided by.
  const float found = fmaxf(largest / CODE_MAX, 1e-12f);
  if (threadIdx.x == 0) *scale = found;
  const float inverse = 1.f / found;
#endif
#pragma unroll
  for (int v = 0; v < N; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] *= inverse;
#endif
#pragma unroll
  for (int v = 0; v < N; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    if (at < numVectors) store_out(row + at * ELEM_VEC, values[v]);
  }
}
