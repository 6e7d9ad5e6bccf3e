// Quantizes rows of activations [numRows, width] to FP8 or INT8 codes with a scale per row. It also scales the sums of
// a GEMM of codes back to activations. Bound by bytes.
// Source: FP8 E4M3 (Micikevicius et al. 2022); per-token scales, SmoothQuant (Xiao et al. 2022).
#include "quantize.cuh"

#if defined(CODE_MAX)
// One block a row; the scale is found (per token) or, with STATIC_SCALE, given (per tensor).
extern "C" __global__ void __launch_bounds__(1024) quantize_rows(
    const elem_t* in, // [numRows, width]
    out_t* out,       // [numRows, width]
    float* scales,    // [numRows], or [1] when given
    int width) {
  __shared__ float scratch[32];
  const int numVectors = width / ELEM_VEC;
  const u64 start = (u64)blockIdx.x * width;
  float values[VECTORS][ELEM_VEC];
  PDL_TRIGGER();
  PDL_WAIT();
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = threadIdx.x + v * blockDim.x;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] = 0.f;
    if (at < numVectors) load_vec(in + start + at * ELEM_VEC, values[v]);
  }
#if defined(STATIC_SCALE)
  store_row<VECTORS>(out + start, scales, values, numVectors, scratch);
#else
  store_row<VECTORS>(out + start, scales + blockIdx.x, values, numVectors, scratch);
#endif
}
#else
__device__ __forceinline__ void load_products(const elem_t* at, float (&out)[ELEM_VEC]) { load_vec(at, out); }

__device__ __forceinline__ void load_products(const int* at, float (&out)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const int4 four = *reinterpret_cast<const int4*>(at + i);
    out[i] = (float)four.x;
    out[i + 1] = (float)four.y;
    out[i + 2] = (float)four.z;
    out[i + 3] = (float)four.w;
  }
}

template <typename Product>
__device__ __forceinline__ void scale_products(const Product* products, const float* rowScales,
                                               const float* columnScales, elem_t* out, int width) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  if (column >= width) return;
  const u64 at = (u64)blockIdx.y * width + column;
  float values[ELEM_VEC];
  load_products(products + at, values);
  const float rowScale = rowScales == nullptr ? 1.f : rowScales[blockIdx.y];
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) {
    values[i] *= rowScale;
    if (columnScales != nullptr) values[i] *= columnScales[column + i];
  }
  store_vec(out + at, values);
}

extern "C" __global__ void __launch_bounds__(256) scale_sums(
    const elem_t* products,    // [numRows, width]; may be `out`
    const float* rowScales,    // [numRows] or null
    const float* columnScales, // [width] or null
    elem_t* out,               // [numRows, width]
    int width) {
  scale_products(products, rowScales, columnScales, out, width);
}

extern "C" __global__ void __launch_bounds__(256) scale_whole_sums(
    const int* products,       // [numRows, width]
    const float* rowScales,    // [numRows] or null
    const float* columnScales, // [width] or null
    elem_t* out,               // [numRows, width]
    int width) {
  scale_products(products, rowScales, columnScales, out, width);
}
#endif
