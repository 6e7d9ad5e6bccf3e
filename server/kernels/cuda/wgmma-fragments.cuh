// WGMMA with the A operand, 64 rows by 16 bf16, in registers: 16 rows a warp, fragments as in mma.cuh. The B operand,
// ROWS (16, 32 or 64) rows, is in shared memory in the 128-byte swizzle (wgmma-tile.cuh). For sm_90a.
// Source: PTX ISA, wgmma.mma_async.m64nNk16, register fragments.
#pragma once
#include "wgmma-tile.cuh"

#if ROWS == 16
#define FRAGMENTS "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12"
#define FRAGMENTS_ADD "%13"
#elif ROWS == 32
#define FRAGMENTS "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19}, %20"
#define FRAGMENTS_ADD "%21"
#elif ROWS == 64
#define FRAGMENTS "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36"
#define FRAGMENTS_ADD "%37"
#endif

// d = a . b^T (+ d), d as of wgmma_shared_shared(). `a` must not change until the WGMMA has ended.
__device__ __forceinline__ void wgmma_register_shared(float (&d)[ROWS / 2], const u32 (&a)[4], u64 b, int adds) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " FRAGMENTS_ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" STRING(ROWS) "k16.f32.bf16.bf16 " FRAGMENTS ", p, 1, 1, 0;\n}\n"
               : SUM_OPERANDS
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
