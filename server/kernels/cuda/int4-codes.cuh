// INT4 codes to bf16 A fragments of mma.sync and wgmma. A word of packInt4() has the eight codes that a lane holds of
// 16 outputs by 16 inputs.
// Source: Marlin (Frantar et al. 2024) and its lop3 conversion (Kim et al. 2022); PTX ISA, lop3.
#pragma once
#include "mma.cuh"

__device__ __forceinline__ u32 word_of(const uint4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// Two codes as bf16 of 128 + code.
__device__ __forceinline__ u32 biased_codes(u32 codes, int i) {
  u32 biased;
  // (codes & 0x000f000f) | 0x43004300 in one instruction, which the compiler makes two.
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(biased) : "r"(codes >> (4 * i)), "r"(0x000f000fu), "r"(0x43004300u));
  return biased;
}

// Eight codes to the bf16 of an A fragment. 0x4300 | code is 128 + code; what it must lose to be code - zero is exact.
__device__ __forceinline__ void decode(u32 codes, u32 minusZeroLow, u32 minusZeroHigh, u32 (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(a[i])
        : "r"(biased_codes(codes, i)), "r"(0x3f803f80u), "r"(i & 1 ? minusZeroHigh : minusZeroLow));
  }
}

// -(128 + zero), twice.
__device__ __forceinline__ u32 minus_zero(u32 zeros, int index) {
  const u32 zero = (zeros >> (4 * index)) & 15u;
  return 0xc300c300u | zero | (zero << 16);
}
