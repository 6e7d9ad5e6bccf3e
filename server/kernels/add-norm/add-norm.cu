// residual[row] += branchScale * postNorm(branch[row]); out[row] = norm(residual[row]) * weight + bias, [numRows,
// width], one block a row. The result is optionally quantized (quantize.cuh). Rows stay in registers, VECTORS vectors a
// thread, so each is read once. Bound by bytes: residual and branch in, residual and out back.
// BRANCH_SCALES: the branch holds unscaled sums of a GEMM of codes. BRANCH_PARTS: the branch is that many f32 split-K
// partial sums. Without HAS_BRANCH the kernel is a plain norm.
// Source: RMSNorm (Zhang and Sennrich 2019), LayerNorm (Ba et al. 2016).
#include "elem.cuh"
#include "quantize.cuh"

#if defined(BRANCH_PARTS)
typedef float branch_t;
#else
typedef elem_t branch_t;
#endif

__device__ __forceinline__ void load_weights(const float* at, float (&out)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(at + i);
    out[i] = four.x;
    out[i + 1] = four.y;
    out[i + 2] = four.z;
    out[i + 3] = four.w;
  }
}

__device__ __forceinline__ float sum_of_squares(const float (&values)[VECTORS][ELEM_VEC], int numVectors, float mean) {
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
  float values[VECTORS][ELEM_VEC];
  PDL_TRIGGER();
#if VECTORS == 1
  // If registers allow, weights are loaded before the rows.
  float weightsAhead[ELEM_VEC] = {};
  if ((int)threadIdx.x < numVectors) load_weights(weight + threadIdx.x * ELEM_VEC, weightsAhead);
#endif
  PDL_WAIT();
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] = 0.f;
    if (at < numVectors) load_vec(residual + start + at * ELEM_VEC, values[v]);
  }
#if defined(HAS_BRANCH)
  float added[VECTORS][ELEM_VEC];
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) added[v][i] = 0.f;
#if defined(BRANCH_PARTS)
    float parts[BRANCH_PARTS][ELEM_VEC] = {};
    if (at < numVectors) {
#pragma unroll
      for (int p = 0; p < BRANCH_PARTS; p++) load_weights(branch + (u64)p * gridDim.x * width + start + at * ELEM_VEC, parts[p]);
    }
#pragma unroll
    for (int p = 0; p < BRANCH_PARTS; p++)
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) added[v][i] += parts[p][i];
#else
    if (at < numVectors) load_vec(branch + start + at * ELEM_VEC, added[v]);
#endif
#if defined(BRANCH_SCALES)
    if (at < numVectors) {
      const float rowScale = branchRowScales[blockIdx.x];
      float columnScales[ELEM_VEC];
      load_weights(branchColumnScales + at * ELEM_VEC, columnScales);
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) added[v][i] *= rowScale * columnScales[i];
    }
#endif
  }
#if defined(POST_NORM)
  const float branchSquares = block_sum(sum_of_squares(added, numVectors, 0.f), scratch[0]);
  const float branchInverse = rsqrtf(branchSquares / width + epsilon);
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    if (at >= numVectors) continue;
    float factors[ELEM_VEC];
    load_weights(postWeight + at * ELEM_VEC, factors);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) added[v][i] *= branchInverse * factors[i];
  }
#endif
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] += branchScale * added[v][i];
    if (at < numVectors) store_vec(residual + start + at * ELEM_VEC, values[v]);
  }
#endif
#if defined(LAYER_NORM)
  float sum = 0.f;
#pragma unroll
  for (int v = 0; v < VECTORS; v++)
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) sum += values[v][i];
  const float mean = block_sum(sum, scratch[1]) / width;
#else
  const float mean = 0.f;
#endif
  const float squares = block_sum(sum_of_squares(values, numVectors, mean), scratch[2]);
  const float inverse = rsqrtf(squares / width + epsilon);
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
    if (at >= numVectors) continue;
#if VECTORS == 1
    const float(&factors)[ELEM_VEC] = weightsAhead;
#else
    float factors[ELEM_VEC];
    load_weights(weight + at * ELEM_VEC, factors);
#endif
#if defined(HAS_BIAS)
    float shifts[ELEM_VEC];
    load_weights(bias + at * ELEM_VEC, shifts);
#endif
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      values[v][i] = (values[v][i] - mean) * inverse * factors[i];
#if defined(HAS_BIAS)
      values[v][i] += shifts[i];
#endif
    }
  }
#if defined(STATIC_SCALE)
  store_row<VECTORS>(out + start, scales, values, numVectors, scratch[3]);
#else
  store_row<VECTORS>(out + start, scales + blockIdx.x, values, numVectors, scratch[3]);
#endif
}
