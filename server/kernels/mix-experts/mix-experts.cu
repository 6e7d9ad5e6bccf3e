// out[token] = sum over the chosen experts of weight * x[token, chosen]: x [numTokens * numChosen, width], out
// [numTokens, width]. Bound by bytes. EMPTIES_LISTS: the lists of the experts, which nothing reads any more, become empty.
// Source: output of a mixture of experts (Shazeer et al. 2017, equation 1).
#include "elem.cuh"

extern "C" __global__ void __launch_bounds__(128) mix_experts(
    const elem_t* x,      // [numTokens, numChosen, width]
    const float* weights, // [numTokens, numChosen]
    elem_t* out,          // [numTokens, width]
    int* counts,          // [numExperts]
    int numChosen, int width, int numExperts) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  if constexpr (IS_SET(EMPTIES_LISTS))
    if (blockIdx.x == 0 && blockIdx.y == 0)
      for (int i = threadIdx.x; i < numExperts; i += blockDim.x) counts[i] = 0;
  if (at >= width) return;
  float sums[ELEM_VEC] = {};
  for (int i = 0; i < numChosen; i++) {
    const u64 row = (u64)blockIdx.y * numChosen + i;
    const float weight = weights[row];
    float values[ELEM_VEC];
    load_vec(x + row * width + at, values);
#pragma unroll
    for (int j = 0; j < ELEM_VEC; j++) sums[j] += weight * values[j];
  }
  store_vec(out + (u64)blockIdx.y * width + at, sums);
}
