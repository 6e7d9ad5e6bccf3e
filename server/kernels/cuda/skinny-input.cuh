// The B operand of a skinny tile: x as bf16, or with X_F16 as f16, clamped to its range. Source: PTX ISA, mma.sync and
// cvt.
#pragma once
#include "skinny-tile.cuh"

#if defined(X_F16)
#define MULTIPLY mma_f16
__device__ __forceinline__ float in_reach(float value) { return fminf(fmaxf(value, -65504.f), 65504.f); }
// The stored form of x.
__device__ __forceinline__ u16 float_to_x(float value) { return (u16)pack_f16(in_reach(value), 0.f); }
__device__ __forceinline__ uint4 pack_x(const float (&v)[8]) {
  return make_uint4(pack_f16(in_reach(v[0]), in_reach(v[1])), pack_f16(in_reach(v[2]), in_reach(v[3])),
                    pack_f16(in_reach(v[4]), in_reach(v[5])), pack_f16(in_reach(v[6]), in_reach(v[7])));
}
#else
#define MULTIPLY mma_bf16
__device__ __forceinline__ u16 float_to_x(float value) { return float_to_bf16(value); }
__device__ __forceinline__ uint4 pack_x(const float (&v)[8]) { return pack_elems(v); }
#endif
