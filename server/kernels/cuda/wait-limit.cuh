// Limit of the time in which a thread looks for what another block or device writes: a missing one would hang the GPU, so
// it traps. It counts cycles of the multiprocessor, which only grow; nothing says so of %globaltimer.
// Source: PTX ISA, special registers %clock64 and %globaltimer.
#pragma once
#include "elem.cuh"

// At least 30 seconds at 2 GHz.
#define MAX_WAIT_CYCLES 60000000000ll

__device__ __forceinline__ u64 cycles() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
  return now;
}

// For each look, in a wait that began at `start`.
__device__ __forceinline__ void trap_when_late(u64 start) {
  if ((long long)(cycles() - start) > MAX_WAIT_CYCLES) __trap();
}
