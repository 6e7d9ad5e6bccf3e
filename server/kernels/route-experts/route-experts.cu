// Top-k routing of a mixture of experts: softmax over logits [numTokens, EXPERTS], then the numChosen largest, ties to
// the smaller id; ids and weights are [numTokens, numChosen]. One warp a token. Bound by latency.
// Options: EXPERTS; ELEM_BF16 or ELEM_F32 is the type of the logits; HAS_BIAS of the logits; APPENDS_LISTS: each choice
// joins the list of its expert, in any order. A token chooses an expert once, so that a list has room for numTokens.
// Source: mixture of experts (Shazeer et al. 2017;
// Fedus et al. 2021).
#include "elem.cuh"

constexpr bool appendsLists = IS_SET(APPENDS_LISTS);

#define WARPS 4
#define PER_LANE CEIL_DIV(EXPERTS, WARP)
#define MINUS_INFINITY __uint_as_float(0xff800000u)
#define SMALLEST (-3.402823466e38f)

extern "C" __global__ void __launch_bounds__(WARPS * WARP) route_experts(
    const elem_t* logits, // [numTokens, EXPERTS]
    const elem_t* bias,   // [EXPERTS]
    int* ids,             // [numTokens, numChosen], most probable first
    float* weights,       // [numTokens, numChosen]
    int* counts,          // [EXPERTS]: zeros before
    int* order,           // [EXPERTS, numTokens]: the choices of each expert, numbered as in ids
    int numTokens, int numChosen, int isRenormalized) {
  const int lane = threadIdx.x & 31, token = blockIdx.x * WARPS + (threadIdx.x >> 5);
  PDL_TRIGGER();
  PDL_WAIT();
  if (token >= numTokens) return;
  float values[PER_LANE], largest = MINUS_INFINITY;
#pragma unroll
  for (int n = 0; n < PER_LANE; n++) {
    const int expert = lane + n * WARP;
    values[n] = expert < EXPERTS ? elem_to_float(logits[(u64)token * EXPERTS + expert]) : MINUS_INFINITY;
    if constexpr (IS_SET(HAS_BIAS))
      if (expert < EXPERTS) values[n] += elem_to_float(bias[expert]);
    // Above those that are chosen already, even where a logit is no number: an expert is chosen once.
    if constexpr (appendsLists)
      if (expert < EXPERTS) values[n] = fmaxf(values[n], SMALLEST);
    largest = fmaxf(largest, values[n]);
  }
  largest = warp_max(largest);
  float total = 0.f;
#pragma unroll
  for (int n = 0; n < PER_LANE; n++) total += lane + n * WARP < EXPERTS ? expf(values[n] - largest) : 0.f;
  total = warp_sum(total);
  float chosenTotal = 0.f, mine = 0.f;
  int myExpert = 0;
  for (int i = 0; i < numChosen; i++) {
    float best = MINUS_INFINITY;
    int bestExpert = EXPERTS;
#pragma unroll
    for (int n = 0; n < PER_LANE; n++) {
      // The choice is a valid expert even for NaN logits.
      const int expert = lane + n * WARP;
      if (expert < EXPERTS && (values[n] > best || bestExpert == EXPERTS)) {
        best = values[n];
        bestExpert = expert;
      }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
      const float other = __shfl_xor_sync(FULL_MASK, best, offset);
      const int otherExpert = __shfl_xor_sync(FULL_MASK, bestExpert, offset);
      if (otherExpert < EXPERTS && (bestExpert == EXPERTS || other > best || (other == best && otherExpert < bestExpert))) {
        best = other;
        bestExpert = otherExpert;
      }
    }
    const float weight = expf(best - largest);
    chosenTotal += weight;
    if (lane == i) mine = weight, myExpert = bestExpert;
    if (lane == 0) ids[(u64)token * numChosen + i] = bestExpert;
    // Below all that is left.
#pragma unroll
    for (int n = 0; n < PER_LANE; n++)
      if (lane + n * WARP == bestExpert) values[n] = MINUS_INFINITY;
  }
  const float divisor = isRenormalized ? chosenTotal : total;
  if (lane < numChosen) weights[(u64)token * numChosen + lane] = mine / divisor;
  if constexpr (appendsLists)
    if (lane < numChosen)
      order[(u64)myExpert * numTokens + atomicAdd(&counts[myExpert], 1)] = token * numChosen + lane;
}
