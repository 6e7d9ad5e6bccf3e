// WGMMA of one warp group: d = a . b^T (+ d), 64 rows of a by 16, 32, 64, 96 or 128 rows of b, one instruction deep. The size
// of d chooses the width. b is in shared memory, a there or in registers (fragments as in mma.cuh, 16 rows a warp).
// Operands in shared memory have the 128-byte swizzle: lines of 128 bytes, groups of eight lines 1024 bytes apart, and
// 16-byte pieces XORed with the line number. For sm_90a.
// d[4 * j + 2 * h + e]: row 16 * warp + g + 8 * h of a, row 8 * j + 2 * t + e of b.
// Source: PTX ISA, wgmma.mma_async, register fragments, matrix descriptor and swizzling modes; CUTLASS calls the layout
// Swizzle<3,4,3> (SW128).
#pragma once
#include "mma.cuh"

static_assert(IS_SET(__CUDA_ARCH_FEAT_SM90_ALL), "WGMMA needs sm_90a");

// Types of both operands, as in the instruction.
enum class WgmmaType { bf16, f16, e4m3 };

__device__ __forceinline__ u64 shared_descriptor(u32 address, u32 leading = 16, u32 stride = 1024) {
  return (u64)((address & 0x3ffffu) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `N` WGMMA groups are in flight.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Offset to the start of the next 1024 bytes, after which lines repeat their pattern.
__device__ __forceinline__ u32 swizzle_padding(u32 address) { return (1024 - (address & 1023)) & 1023; }

// Operands of d, and their names in the text.
#define WGMMA_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_D8(i) WGMMA_D4(i), WGMMA_D4(i + 4)
#define WGMMA_D16(i) WGMMA_D8(i), WGMMA_D8(i + 8)
#define WGMMA_D32(i) WGMMA_D16(i), WGMMA_D16(i + 16)
#define WGMMA_D48(i) WGMMA_D32(i), WGMMA_D16(i + 32)
#define WGMMA_D64(i) WGMMA_D32(i), WGMMA_D32(i + 32)
#define WGMMA_N8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WGMMA_N16 \
  WGMMA_N8 \
  ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_N32 \
  WGMMA_N16 \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_N48 \
  WGMMA_N32 \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_N64 \
  WGMMA_N48 \
  ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// One instruction, with both operands in shared memory.
#define WGMMA_SHARED(columns, sums, a_, b_, adds_, types, transposes)                                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #adds_ ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns types \
               " {" WGMMA_N##sums "}, %" #a_ ", %" #b_ ", p, 1, 1" transposes ";\n}\n"                             \
               : WGMMA_D##sums(0)                                                                                 \
               : "l"(a), "l"(b), "r"(adds))

#define WGMMA_SHARED_SHARED(columns, sums, a_, b_, adds_)                                                      \
  template <WgmmaType type>                                                                                    \
  __device__ __forceinline__ void wgmma_shared_shared(float(&d)[sums], u64 a, u64 b, int adds) {               \
    if constexpr (type == WgmmaType::bf16)                                                                     \
      WGMMA_SHARED(columns, sums, a_, b_, adds_, "k16.f32.bf16.bf16", ", 0, 0");                               \
    else if constexpr (type == WgmmaType::f16)                                                                 \
      WGMMA_SHARED(columns, sums, a_, b_, adds_, "k16.f32.f16.f16", ", 0, 0");                                 \
    else                                                                                                       \
      WGMMA_SHARED(columns, sums, a_, b_, adds_, "k32.f32.e4m3.e4m3", "");                                     \
  }

WGMMA_SHARED_SHARED(16, 8, 8, 9, 10)
WGMMA_SHARED_SHARED(32, 16, 16, 17, 18)
WGMMA_SHARED_SHARED(64, 32, 32, 33, 34)
WGMMA_SHARED_SHARED(96, 48, 48, 49, 50)
WGMMA_SHARED_SHARED(128, 64, 64, 65, 66)

// With a in registers, as bf16. `a` must not change until the WGMMA has ended.
#define WGMMA_REGISTER_SHARED(columns, sums, a0, a1, a2, a3, b_, adds_)                                               \
  __device__ __forceinline__ void wgmma_register_shared(float(&d)[sums], const u32(&a)[4], u64 b, int adds) {         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #adds_                                                          \
                 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" WGMMA_N##sums "}, {%" #a0    \
                 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b_ ", p, 1, 1, 0;\n}\n"                                           \
                 : WGMMA_D##sums(0)                                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));                                    \
  }

WGMMA_REGISTER_SHARED(16, 8, 8, 9, 10, 11, 12, 13)
WGMMA_REGISTER_SHARED(32, 16, 16, 17, 18, 19, 20, 21)
WGMMA_REGISTER_SHARED(64, 32, 32, 33, 34, 35, 36, 37)
WGMMA_REGISTER_SHARED(128, 64, 64, 65, 66, 67, 68, 69)

// d += a . b with a in registers, and b transposed: 16 rows of 128 numbers in shared memory.
#define WGMMA_TRANSPOSED(types)                                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16." types " {" WGMMA_N64                                    \
               "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"                                                         \
               : WGMMA_D64(0)                                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <WgmmaType type>
__device__ __forceinline__ void wgmma_register_transposed(float (&d)[64], const u32 (&a)[4], u64 b) {
  static_assert(type != WgmmaType::e4m3, "only 16-bit operands can be transposed");
  if constexpr (type == WgmmaType::bf16)
    WGMMA_TRANSPOSED("f32.bf16.bf16");
  else
    WGMMA_TRANSPOSED("f32.f16.f16");
}
