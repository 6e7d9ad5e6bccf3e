// TMA: bulk and tensor-map copies to shared memory that count their bytes at an mbarrier, and mbarrier operations. For
// sm_90 and later.
// Source: PTX ISA, cp.async.bulk, cp.async.bulk.tensor, mbarrier, createpolicy.
#pragma once
#include "mma.cuh"

#define LINE 128 // bytes of a row in a box of the tensor map

// Tensor map (CUtensorMap) of a matrix, written by the driver.
struct __align__(64) TensorMap {
  u64 words[16];
};

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// Makes mbarrier_init visible to TMA.
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and expects so many bytes.
__device__ __forceinline__ void mbarrier_expect_tx(u32 barrier, u32 numBytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(numBytes) : "memory");
}

// Arrives once all cp.async of the thread have arrived; counts as one of the expected arrivals.
__device__ __forceinline__ void cp_async_mbarrier_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Between writes to shared memory by threads, cp.async among them, and reads by WGMMA.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Waits until the phase of that parity is over.
__device__ __forceinline__ void mbarrier_wait_parity(u32 barrier, u32 parity) {
  u32 isOver;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(isOver)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (isOver == 0);
}

// Stages of a ring that a producer or a consumer visits in order, and the parity of the phase that it waits for.
template <int numStages>
struct RingCursor {
  int stage, parity;

  __device__ __forceinline__ void next() {
    if (++stage == numStages) stage = 0, parity ^= 1;
  }
};

// The stage `count` behind one; at most a round.
template <int numStages>
__device__ __forceinline__ int stage_behind(int stage, int count) {
  return stage + count >= numStages ? stage + count - numStages : stage + count;
}

// L2 policy for data that is read once.
__device__ __forceinline__ u64 evict_first_policy() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ u64 evict_last_policy() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Loads a rectangle from byte `x` of row `y` on into lines of shared memory, with the swizzle of the matrix units:
// groups of eight lines, 16-byte pieces XORed with the line number.
__device__ __forceinline__ void tma_load_2d(u32 to, const TensorMap& table, int x, int y, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&table), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

// Bytes as they lie, a multiple of 16 from a multiple of 16.
__device__ __forceinline__ void bulk_load(u32 to, const void* from, u32 numBytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(numBytes), "r"(barrier), "l"(policy)
      : "memory");
}
