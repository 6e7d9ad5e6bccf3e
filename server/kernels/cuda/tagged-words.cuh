// Values that blocks of a running grid exchange: a 64-bit word holds two 16-bit values and the number of the launch,
// and is written and read at once. A reader that finds the number of this launch has the values too. No barrier is
// needed, and the exchange costs one trip to the L2 cache.
// Source: LL protocol of NCCL (data and flag in one word); PTX ISA, st.relaxed and ld.relaxed at gpu scope.
#pragma once
#include "grid-barrier.cuh"

__device__ __forceinline__ void put_word(u64* at, u32 pair, u32 launch) {
  const u64 word = (u64)launch << 32 | pair;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

__device__ __forceinline__ void look_at_word(const u64* at, u64& word) {
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
}

__device__ __forceinline__ void look_at_words(const u64* at, u64& first, u64& second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(at) : "memory");
}

__device__ __forceinline__ bool is_of_launch(u64 word, u32 launch) { return (u32)(word >> 32) == launch; }
