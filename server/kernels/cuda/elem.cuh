// Shared by every kernel: the element type of activations, 16-byte accesses, reductions, programmatic dependent launch.
// Includes nothing of CUDA, so that kernels compile without a toolkit. ELEM_BF16 or ELEM_F32 chooses the type.
// Source: PTX ISA, cvt and griddepcontrol; FP8 E4M3 (Micikevicius et al. 2022).
#pragma once
#include "options.cuh"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define WARP 32
#define FULL_MASK 0xffffffffu
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

// Programmatic dependent launch: a kernel may start before the previous one ends, and waits before it touches its results.
#if __CUDA_ARCH__ >= 900
#define PDL_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#define PDL_TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#else
#define PDL_WAIT()
#define PDL_TRIGGER()
#endif

__device__ __forceinline__ float bf16_to_float(u16 bits) { return __uint_as_float((u32)bits << 16); }

__device__ __forceinline__ float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }

__device__ __forceinline__ float bf16_high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Two floats as bf16, `low` in the lower half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ u16 float_to_bf16(float value) { return (u16)pack_bf16(value, 0.f); }

// Two floats as f16, `low` in the lower half.
__device__ __forceinline__ u32 pack_f16(float low, float high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ float f16_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// ---- fp8 e4m3 ----

// Whether the device converts E4M3 by itself.
constexpr bool convertsE4m3 = __CUDA_ARCH__ >= 890;

// Two e4m3 as two f16, exactly. Below sm_89 by shifting the bits to their place, which is 2^8 too small.
__device__ __forceinline__ u32 e4m3x2_to_f16x2(u16 pair) {
  u32 out;
  if constexpr (convertsE4m3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(pair));
  } else {
    const u32 spread = ((u32)pair & 0xffu) | (((u32)pair & 0xff00u) << 8);
    const u32 small = ((spread & 0x00800080u) << 8) | ((spread & 0x007f007fu) << 7);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(small), "r"(0x5c005c00u));
  }
  return out;
}

__device__ __forceinline__ float e4m3_to_float(u8 bits) { return f16_to_float((u16)e4m3x2_to_f16x2(bits)); }

// Nearest, ties to even, saturating: cvt.rn.satfinite of later devices.
__device__ __forceinline__ u8 float_to_e4m3_bits(float value) {
  const u32 sign = (__float_as_uint(value) >> 24) & 0x80u;
  const float size = fminf(fabsf(value), 448.f);
  // Below 2^-6 all numbers are multiples of 2^-9; adding 2^14 rounds to them.
  if (size < 0.015625f) return (u8)(sign | (__float_as_uint(size + 16384.f) & 0xffu));
  const u32 bits = __float_as_uint(size);
  const u32 roundedBits = bits + 0x7ffffu + ((bits >> 20) & 1u);
  return (u8)(sign | ((roundedBits >> 20) - (120u << 3)));
}

// Two floats as e4m3, `low` in the lower byte; larger ones become 448.
__device__ __forceinline__ u16 pack_e4m3(float low, float high) {
  if constexpr (!convertsE4m3) return (u16)(float_to_e4m3_bits(low) | ((u32)float_to_e4m3_bits(high) << 8));
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ u32 pack_e4m3x4(float a, float b, float c, float d) {
  return (u32)pack_e4m3(a, b) | ((u32)pack_e4m3(c, d) << 16);
}

// ---- elements ----

// Storage type of activations: f32 with ELEM_F32, else bf16 by its bits.
typedef Choose<IS_SET(ELEM_F32), float, u16> elem_t;
// Elements of a vector of 16 bytes.
constexpr int ELEM_VEC = 16 / sizeof(elem_t);

__device__ __forceinline__ float elem_to_float(u16 bits) { return bf16_to_float(bits); }
__device__ __forceinline__ float elem_to_float(float value) { return value; }

template <typename Elem>
__device__ __forceinline__ Elem float_to(float value);
template <>
__device__ __forceinline__ u16 float_to<u16>(float value) {
  return float_to_bf16(value);
}
template <>
__device__ __forceinline__ float float_to<float>(float value) {
  return value;
}
__device__ __forceinline__ elem_t float_to_elem(float value) { return float_to<elem_t>(value); }

// A vector of bf16.
__device__ __forceinline__ void unpack_elems(uint4 raw, float (&out)[8]) {
  const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    out[2 * i] = bf16_low(words[i]);
    out[2 * i + 1] = bf16_high(words[i]);
  }
}
__device__ __forceinline__ uint4 pack_elems(const float (&in)[8]) {
  return make_uint4(pack_bf16(in[0], in[1]), pack_bf16(in[2], in[3]), pack_bf16(in[4], in[5]), pack_bf16(in[6], in[7]));
}

// A vector of f32.
__device__ __forceinline__ void unpack_elems(uint4 raw, float (&out)[4]) {
  out[0] = __uint_as_float(raw.x);
  out[1] = __uint_as_float(raw.y);
  out[2] = __uint_as_float(raw.z);
  out[3] = __uint_as_float(raw.w);
}
__device__ __forceinline__ uint4 pack_elems(const float (&in)[4]) {
  return make_uint4(__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]), __float_as_uint(in[3]));
}

// 16 bytes; `at` must be a multiple of 16.
__device__ __forceinline__ void load_vec(const elem_t* at, float (&out)[ELEM_VEC]) {
  unpack_elems(*reinterpret_cast<const uint4*>(at), out);
}
__device__ __forceinline__ void store_vec(elem_t* at, const float (&in)[ELEM_VEC]) {
  *reinterpret_cast<uint4*>(at) = pack_elems(in);
}
// Rounds a number as storing it would.
__device__ __forceinline__ float as_stored(float value) { return elem_to_float(float_to_elem(value)); }

// ---- reductions ----

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(FULL_MASK, value, offset);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, offset));
  return value;
}

// Sum over the block, known to every thread. Each use needs `scratch` of its own or a barrier in between.
__device__ __forceinline__ float block_sum(float value, float* scratch /* [32] */) {
  value = warp_sum(value);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, numWarps = CEIL_DIV(blockDim.x, WARP);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return warp_sum(lane < numWarps ? scratch[lane] : 0.f);
}

__device__ __forceinline__ float block_max(float value, float* scratch /* [32] */) {
  value = warp_max(value);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, numWarps = CEIL_DIV(blockDim.x, WARP);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return warp_max(lane < numWarps ? scratch[lane] : __uint_as_float(0xff800000u));
}
