// Work of a grouped GEMM over the experts of a mixture: each expert has a list of choices (token, place), in tiles of ROWS;
// a tile has `perTile` units of work. Only the device knows how long the lists are.
// Source: grouped GEMM schedulers of CUTLASS 3; mixture of experts (Shazeer et al. 2017; Fedus et al. 2021).
#pragma once
#include "activation.cuh"

struct ExpertUnit {
  int expert;    // -1 behind the last unit
  int numRows;   // choices of the expert
  int inExpert;  // number among the expert's units
  int numTiles;  // of the expert
};

// Finds units by their number, which does not fall. By a whole warp.
struct ExpertSchedule {
  const int* counts; // [numExperts]
  int numExperts, perTile;
  int base = 0, before = 0;

  __device__ __forceinline__ ExpertSchedule(const int* listCounts, int experts, int unitsPerTile)
      : counts(listCounts), numExperts(experts), perTile(unitsPerTile) {}

  __device__ __forceinline__ ExpertUnit find(int number) {
    const int lane = threadIdx.x & 31;
    for (; base < numExperts; base += WARP) {
      const int expert = base + lane;
      const int numRows = expert < numExperts ? counts[expert] : 0, tiles = CEIL_DIV(numRows, ROWS);
      int sum = tiles * perTile;
#pragma unroll
      for (int offset = 1; offset < WARP; offset <<= 1) {
        const int other = __shfl_up_sync(FULL_MASK, sum, offset);
        if (lane >= offset) sum += other;
      }
      const u32 hits = __ballot_sync(FULL_MASK, before + sum > number);
      if (hits != 0) {
        const int hit = __ffs(hits) - 1;
        const int start = __shfl_sync(FULL_MASK, before + sum - tiles * perTile, hit);
        return {base + hit, __shfl_sync(FULL_MASK, numRows, hit), number - start, __shfl_sync(FULL_MASK, tiles, hit)};
      }
      before += __shfl_sync(FULL_MASK, sum, 31);
    }
    return {-1, 0, 0, 0};
  }
};

// Turns the sum of a matrix row into the result that the activation takes.
struct Finish {
  float factor, bias;

  // `at` counts the matrix rows of all experts; sums of `Weights` are to be multiplied by `weightFactor`.
  __device__ __forceinline__ void load(float weightFactor, const void* scales, const float* biases, u64 at) {
    factor = IS_SET(WEIGHT_E4M3) ? weightFactor * reinterpret_cast<const float*>(scales)[at] : weightFactor;
    bias = IS_SET(HAS_BIAS) ? biases[at] : 0.f;
  }
  __device__ __forceinline__ float operator()(float sum) const {
    if constexpr (IS_SET(WEIGHT_E4M3) || IS_SET(WEIGHT_MXFP4)) sum *= factor;
    if constexpr (IS_SET(HAS_BIAS)) sum += bias;
    return sum;
  }
};

__device__ __forceinline__ float finish_sum(float sum, float weightFactor, const void* scales, const float* biases, u64 at) {
  Finish finish;
  finish.load(weightFactor, scales, biases, at);
  return finish(sum);
}
