// Grouped GEMM of a mixture of experts in f32, one warp a result, for exactness: out[choice] = x[row of choice] .
// weight[expert]^T. Bound by bytes, not tuned. Options: HAS_BIAS.
// Source: mixture of experts (Shazeer et al. 2017).
#include "elem.cuh"

#define WARPS 8

extern "C" __global__ void __launch_bounds__(WARPS * WARP) plain_expert_linear(
    const elem_t* x,      // [numChoices / choicesPerRow, inputs]
    const elem_t* weight, // [numExperts, outputs, inputs]
    const int* ids,       // [numChoices]
    const float* bias,    // [numExperts, outputs]
    elem_t* out,          // [numChoices, outputs]
    int inputs, int outputs, int choicesPerRow) {
  const int output = blockIdx.x * WARPS + (threadIdx.x >> 5), choice = blockIdx.y;
  PDL_TRIGGER();
  PDL_WAIT();
  if (output >= outputs) return;
  const elem_t* row = x + (u64)(choice / choicesPerRow) * inputs;
  const elem_t* column = weight + ((u64)ids[choice] * outputs + output) * inputs;
  float sum = 0.f;
  for (int i = threadIdx.x & 31; i < inputs; i += WARP) sum += elem_to_float(row[i]) * elem_to_float(column[i]);
  sum = warp_sum(sum);
  if constexpr (IS_SET(HAS_BIAS)) sum += bias[(u64)ids[choice] * outputs + output];
  if ((threadIdx.x & 31) == 0) out[(u64)choice * outputs + output] = float_to_elem(sum);
}
