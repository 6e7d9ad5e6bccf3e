// Element type of the paged KV cache: KV_E4M3, KV_F16, or else the type of activations.
// Source: FP8 E4M3 (Micikevicius et al. 2022), PagedAttention (Kwon et al. 2023).
#pragma once
#include "elem.cuh"

constexpr bool isKvE4m3 = IS_SET(KV_E4M3), isKvF16 = IS_SET(KV_F16);

typedef Choose<isKvE4m3, u8, Choose<isKvF16, u16, elem_t>> kv_t;

__device__ __forceinline__ float kv_to_float(u8 bits) { return e4m3_to_float(bits); }
__device__ __forceinline__ float kv_to_float(u16 bits) { return isKvF16 ? f16_to_float(bits) : bf16_to_float(bits); }
__device__ __forceinline__ float kv_to_float(float value) { return value; }

// Two adjacent elements. Only codes have a scale.
__device__ __forceinline__ void store_kv_two(u8* at, float2 two, float inverseScale) {
  *reinterpret_cast<u16*>(at) = pack_e4m3(two.x * inverseScale, two.y * inverseScale);
}
__device__ __forceinline__ void store_kv_two(u16* at, float2 two, float) {
  *reinterpret_cast<u32*>(at) = isKvF16 ? pack_f16(two.x, two.y) : pack_bf16(two.x, two.y);
}
__device__ __forceinline__ void store_kv_two(float* at, float2 two, float) { *reinterpret_cast<float2*>(at) = two; }
