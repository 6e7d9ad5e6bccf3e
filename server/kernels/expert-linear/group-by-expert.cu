// Stable counting sort of the choices (token, place) by expert: starts [numExperts + 1] and order [numChoices], one
// block an expert. Bound by latency: it reads numChoices ids a block.
// Source: token dispatch of mixtures of experts (Shazeer et al. 2017).
#include "elem.cuh"

#define THREADS 256
#define WARPS (THREADS / WARP)

extern "C" __global__ void __launch_bounds__(THREADS) group_by_expert(
    const int* ids, // [count]
    int* starts,    // [numExperts + 1]: where each expert's choices begin in `order`
    int* order,     // [count]: indices into `ids`
    int count) {
  __shared__ float scratch[32];
  __shared__ int warpCounts[2][WARPS];
  const int expert = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  PDL_TRIGGER();
  PDL_WAIT();
  float fewer = 0.f; // exact up to 2^24 choices
  for (int i = threadIdx.x; i < count; i += THREADS) fewer += ids[i] < expert ? 1.f : 0.f;
  int at = (int)block_sum(fewer, scratch);
  if (threadIdx.x == 0) {
    starts[expert] = at;
    if (expert + 1 == (int)gridDim.x) starts[expert + 1] = count;
  }
  int buffer = 0;
  for (int base = 0; base < count; base += THREADS, buffer ^= 1) {
    const int i = base + threadIdx.x;
    const bool isMine = i < count && ids[i] == expert;
    const u32 votes = __ballot_sync(FULL_MASK, isMine);
    if (lane == 0) warpCounts[buffer][warp] = __popc(votes);
    __syncthreads();
    int before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      before += w < warp ? warpCounts[buffer][w] : 0;
      all += warpCounts[buffer][w];
    }
    if (isMine) order[at + before + __popc(votes & ((1u << lane) - 1))] = i;
    at += all;
  }
}
