// The last of several blocks that share a counter: the one that reduces their partial results.
// Source: threadFenceReduction of the CUDA samples; memory fence functions of the CUDA C++ Programming Guide.
#pragma once
#include "elem.cuh"

// Whether this is the last block of `count` to come. The counter is zero before the first and after the last, which may
// read all that the others wrote.
__device__ __forceinline__ bool is_last_block(int* counter, int count, bool& isLast /* shared */) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    isLast = atomicAdd(counter, 1) == count - 1;
    if (isLast) *counter = 0;
  }
  __syncthreads();
  if (!isLast) return false;
  __threadfence();
  return true;
}
