// Online softmax of the two rows of a score tile that a thread has a part of: rows g and g + 8, of which four lanes have
// a quarter of the columns each. Score 4 * j + 2 * half + e: row g + 8 * half, column e of pair j.
// Source: online softmax (Milakov and Gimelshein 2018), FlashAttention-2 (Dao 2023).
#pragma once
#include "mma.cuh"

#define LOG2_E 1.4426950408889634f
#define MINUS_INFINITY __uint_as_float(0xff800000u)

// Over the four lanes of a row.
__device__ __forceinline__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, 1));
  return fmaxf(value, __shfl_xor_sync(FULL_MASK, value, 2));
}

__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(FULL_MASK, value, 1);
  return value + __shfl_xor_sync(FULL_MASK, value, 2);
}

// Weight of a head's attention sink beside the scores of a row: a logit that takes part in the softmax and has no value
// (gpt-oss model card, OpenAI 2025; StreamingLLM, Xiao et al. 2023). `largest`: the score that weights are relative to, times
// log2(e).
__device__ __forceinline__ float sink_weight(const float* sinks, int head, float largest) {
  return exp2_fast(fmaf(sinks[head], LOG2_E, -largest));
}

struct OnlineSoftmax {
  float largest[2] = {MINUS_INFINITY, MINUS_INFINITY};
  float totals[2] = {0.f, 0.f}; // of the lane's columns

  // Makes the scores of row `half` weights, 2^(score * toLog2 - largest). Returns the factor of all weights before.
  // `mayBeEmpty`: a row may have seen no key yet, and has no largest score to subtract then.
  template <bool mayBeEmpty, int N>
  __device__ __forceinline__ float update(float (&scores)[N], int half, float toLog2) {
    float best = largest[half];
#pragma unroll
    for (int j = 0; j < N / 4; j++) best = fmaxf(best, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    best = row_max(best);
    const float base = mayBeEmpty && best == MINUS_INFINITY ? 0.f : best * toLog2;
    const float factor = exp2_fast(largest[half] * toLog2 - base);
    largest[half] = best;
    float total = 0.f;
#pragma unroll
    for (int j = 0; j < N / 4; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float& score = scores[4 * j + 2 * half + e];
        score = exp2_fast(fmaf(score, toLog2, -base));
        total += score;
      }
    totals[half] = totals[half] * factor + total;
    return factor;
  }

  __device__ __forceinline__ float total(int half) const { return row_sum(totals[half]); }
};
