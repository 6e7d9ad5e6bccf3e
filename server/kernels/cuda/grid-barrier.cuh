// Barrier over all blocks of a grid that is co-resident: one block on each SM. Source: PTX ISA, red.release and
// ld.acquire at gpu scope (memory consistency model); grid synchronization of the CUDA C++ Programming Guide.
#pragma once
#include "wait-limit.cuh"

__device__ __forceinline__ u32 load_acquire(const u32* at) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

__device__ __forceinline__ void grid_arrive(u32* at) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(1u) : "memory");
}

// Barrier number n (0 to 2) of a launch. arrived[n] counts the blocks. All counts are zero again before the next launch.
// Block 0 clears counts 1 and 2 before it arrives at barrier 0, when no block can have arrived there yet. It clears count 0
// once all blocks have left barrier 0.
__device__ __forceinline__ void grid_barrier(u32* arrived, int n) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0 && n == 0) arrived[1] = arrived[2] = 0;
    grid_arrive(arrived + n);
    const u64 start = cycles();
    while (load_acquire(arrived + n) < gridDim.x) trap_when_late(start);
    if (blockIdx.x == 0 && n == 1) arrived[0] = 0;
  }
  __syncthreads();
}
