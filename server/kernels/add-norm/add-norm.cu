// residual[row] += branchScale * postNorm(branch[row]); out[row] = norm(residual[row]) * weight + bias, [numRows,
// width], one block a row. The result is optionally quantized (quantize.cuh). Rows stay in registers, VECTORS vectors a
// thread, so each is read once.
// Options: HAS_BRANCH: without it the kernel is a plain norm; BRANCH_PARTIALS: the branch is that many f32 split-K partial
// sums; BRANCH_SCALES: it holds unscaled sums of a GEMM of codes; POST_NORM; LAYER_NORM, else RMSNorm; HAS_BIAS.
// Roofline: bytes. A launch moves 4 * numRows * width elements (residual and branch in, residual and out back) for
// about 6 FLOP each.
// Source: RMSNorm (Zhang and Sennrich 2019), LayerNorm (Ba et al. 2016).
#include "elem.cuh"
#include "quantize.cuh"

#ifndef BRANCH_PARTIALS
#define BRANCH_PARTIALS 0
#endif

typedef Choose<(BRANCH_PARTIALS > 0), float, elem_t> branch_t;
// A row in registers: thread t has the vectors t, t + blockDim, ...; those after the last are zeros.
typedef float Row[VECTORS][ELEM_VEC];

constexpr bool loadsWeightsAhead = VECTORS == 1; // registers allow it

__device__ __forceinline__ void load_floats(const float* at, float (&out)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(at + i);
    out[i] = four.x;
    out[i + 1] = four.y;
    out[i + 2] = four.z;
    out[i + 3] = four.w;
  }
}

// Calls `use(vector of the row, v)` for each vector that this thread has.
template <typename Use>
__device__ __forceinline__ void each_vector(int numVectors, Use use) {
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    if (at < numVectors) use(at, v);
  }
}

__device__ __forceinline__ void clear(float (&vector)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) vector[i] = 0.f;
}

__device__ __forceinline__ float sum_of(const Row& values) {
  float sum = 0.f;
#pragma unroll
  for (int v = 0; v < VECTORS; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) sum += values[v][i];
  return sum;
}

__device__ __forceinline__ float sum_of_squares(const Row& values, int numVectors, float mean) {
  float sum = 0.f;
#pragma unroll
  for (int v = 0; v < VECTORS; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const float from = values[v][i] - mean;
      sum += threadIdx.x + v * blockDim.x < numVectors ? from * from : 0.f;
    }
  return sum;
}

// Loads a vector of the branch into `sums`, which are zeros: elements, or split-K partial sums that lie `stride` apart and are all loaded
// before they are added.
template <int numParts, typename Branch>
__device__ __forceinline__ void load_branch(const Branch* at, u64 stride, bool isThere, float (&sums)[ELEM_VEC]) {
  if constexpr (numParts == 0) {
    if (isThere) load_vec(at, sums);
  } else {
    float parts[numParts][ELEM_VEC] = {};
    if (isThere) {
#pragma unroll
      for (int p = 0; p < numParts; p++) load_floats(at + p * stride, parts[p]);
    }
#pragma unroll
    for (int p = 0; p < numParts; p++)
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) sums[i] += parts[p][i];
  }
}

__device__ __forceinline__ void scale_branch(float rowScale, const float* columnScales, float (&out)[ELEM_VEC]) {
  float scales[ELEM_VEC];
  load_floats(columnScales, scales);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) out[i] *= rowScale * scales[i];
}

__device__ __forceinline__ void post_norm(Row& added, const float* weight, int numVectors, int width, float epsilon,
                                          float* scratch) {
  const float squares = block_sum(sum_of_squares(added, numVectors, 0.f), scratch);
  const float inverse = rsqrtf(squares / width + epsilon);
  each_vector(numVectors, [&](int at, int v) {
    float factors[ELEM_VEC];
    load_floats(weight + at * ELEM_VEC, factors);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) added[v][i] *= inverse * factors[i];
  });
}

extern "C" __global__ void __launch_bounds__(1024) add_norm(
    elem_t* residual,        // [numRows, width]
    const branch_t* branch,  // [numRows, width]
    const float* postWeight, // [width]
    const float* weight,     // [width]
    const float* bias,       // [width]
    out_t* out,              // [numRows, width]
    float* scales,           // [numRows], or [1] when given
    const float* branchRowScales,    // [numRows]
    const float* branchColumnScales, // [width]
    int width, float epsilon, float branchScale) {
  __shared__ float scratch[4][32];
  const int numVectors = width / ELEM_VEC;
  const u64 start = (u64)blockIdx.x * width;
  Row values;
  PDL_TRIGGER();
  float weightsAhead[ELEM_VEC] = {};
  if constexpr (loadsWeightsAhead) {
    if ((int)threadIdx.x < numVectors) load_floats(weight + threadIdx.x * ELEM_VEC, weightsAhead);
  }
  PDL_WAIT();
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    clear(values[v]);
    if (at < numVectors) load_vec(residual + start + at * ELEM_VEC, values[v]);
  }
  if constexpr (IS_SET(HAS_BRANCH)) {
    Row added;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      const int at = threadIdx.x + v * blockDim.x;
      clear(added[v]);
      const branch_t* from = branch + start + at * ELEM_VEC;
      load_branch<BRANCH_PARTIALS>(from, (u64)gridDim.x * width, at < numVectors, added[v]);
      if constexpr (IS_SET(BRANCH_SCALES)) {
        if (at < numVectors) scale_branch(branchRowScales[blockIdx.x], branchColumnScales + at * ELEM_VEC, added[v]);
      }
    }
    if constexpr (IS_SET(POST_NORM)) post_norm(added, postWeight, numVectors, width, epsilon, scratch[0]);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      const int at = threadIdx.x + v * blockDim.x;
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) values[v][i] += branchScale * added[v][i];
      if (at < numVectors) store_vec(residual + start + at * ELEM_VEC, values[v]);
    }
  }
  float mean = 0.f;
  if constexpr (IS_SET(LAYER_NORM)) mean = block_sum(sum_of(values), scratch[1]) / width;
  const float squares = block_sum(sum_of_squares(values, numVectors, mean), scratch[2]);
  const float inverse = rsqrtf(squares / width + epsilon);
  each_vector(numVectors, [&](int at, int v) {
    float loaded[ELEM_VEC];
    if constexpr (!loadsWeightsAhead) load_floats(weight + at * ELEM_VEC, loaded);
    const float(&factors)[ELEM_VEC] = loadsWeightsAhead ? weightsAhead : loaded;
    float shifts[ELEM_VEC] = {};
    if constexpr (IS_SET(HAS_BIAS)) load_floats(bias + at * ELEM_VEC, shifts);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      values[v][i] = (values[v][i] - mean) * inverse * factors[i];
      if constexpr (IS_SET(HAS_BIAS)) values[v][i] += shifts[i];
    }
  });
  store_row<VECTORS>(out + start, scales, values, numVectors, scratch[3]);
}
