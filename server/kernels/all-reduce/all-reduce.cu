// One-shot all-reduce (sum) of small messages [count] over RANKS GPUs of one host. Each rank writes its message to
// peer-visible staging memory, raises its flag, waits for the other flags, and adds all messages in rank order. All
// ranks therefore get the same bits. Bound by the latency of the link.
// Staging is double-buffered: a rank overwrites a half two rounds later, when every rank has raised the flag of the
// round between. Rounds are counted on the device for each block, so that a captured CUDA graph can be replayed.
// Options: RANKS; ELEM_BF16 or ELEM_F32. Source: all-reduce of the NCCL user guide; flags by PTX ISA st.release and
// ld.acquire at system scope (memory consistency model).
#include "wait-limit.cuh"

__device__ __forceinline__ void tell(u32* flag, u32 round) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(round) : "memory");
}

__device__ __forceinline__ u32 told(const u32* flag) {
  u32 round;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(round) : "l"(flag) : "memory");
  return round;
}

__device__ __forceinline__ void wait_for(const u32* flag, u32 round) {
  const u64 start = cycles();
  // Rounds wrap around after 2^32.
  while ((int)(told(flag) - round) < 0) trap_when_late(start);
}

// Bypasses this device's caches, which are not coherent with a peer's writes.
__device__ __forceinline__ uint4 load_shared_by_peers(const elem_t* at) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at));
  return value;
}

extern "C" __global__ void __launch_bounds__(512) all_reduce(
    const elem_t* in,           // [count]
    elem_t* out,                // [count]; may be `in`
    elem_t* const* staging,     // [RANKS] addresses of [2, capacity]
    u32* const* flags,          // [RANKS] addresses of [gridDim.x, RANKS]: the round that a rank has reached, for each block
    u32* rounds,                // [gridDim.x], this rank's
    int rank, i64 count, i64 capacity) {
  PDL_TRIGGER();
  PDL_WAIT();
  const u32 round = rounds[blockIdx.x] + 1;
  const u64 half = (round & 1) * (u64)capacity;
  const u64 step = (u64)gridDim.x * blockDim.x * ELEM_VEC;
  const u64 start = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  for (u64 at = start; at < count; at += step)
    *reinterpret_cast<uint4*>(staging[rank] + half + at) = *reinterpret_cast<const uint4*>(in + at);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < RANKS) {
    tell(flags[threadIdx.x] + blockIdx.x * RANKS + rank, round);
    wait_for(flags[rank] + blockIdx.x * RANKS + threadIdx.x, round);
  }
  __syncthreads();
  for (u64 at = start; at < count; at += step) {
    float sums[ELEM_VEC] = {};
    uint4 messages[RANKS];
#pragma unroll
    for (int r = 0; r < RANKS; r++) messages[r] = load_shared_by_peers(staging[r] + half + at);
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      float values[ELEM_VEC];
      unpack_elems(messages[r], values);
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) sums[i] += values[i];
    }
    store_vec(out + at, sums);
  }
  if (threadIdx.x == 0) rounds[blockIdx.x] = round;
}
