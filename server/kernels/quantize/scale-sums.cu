// Scales the sums of a GEMM of codes back to activations: out [numRows, width] = sums * row scale * column scale.
// Roofline: bytes. A launch reads numRows * width sums and writes as many elements.
// Source: FP8 E4M3 (Micikevicius et al. 2022); per-token scales, SmoothQuant (Xiao et al. 2022).
#include "elem.cuh"

__device__ __forceinline__ void load_sums(const elem_t* at, float (&out)[ELEM_VEC]) { load_vec(at, out); }

__device__ __forceinline__ void load_sums(const int* at, float (&out)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const int4 four = *reinterpret_cast<const int4*>(at + i);
    out[i] = (float)four.x;
    out[i + 1] = (float)four.y;
    out[i + 2] = (float)four.z;
    out[i + 3] = (float)four.w;
  }
}

template <typename Sum>
__device__ __forceinline__ void scale_to_elems(const Sum* sums, const float* rowScales,
                                               const float* columnScales, elem_t* out, int width) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  if (column >= width) return;
  const u64 at = (u64)blockIdx.y * width + column;
  float values[ELEM_VEC];
  load_sums(sums + at, values);
  const float rowScale = rowScales == nullptr ? 1.f : rowScales[blockIdx.y];
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) {
    values[i] *= rowScale;
    if (columnScales != nullptr) values[i] *= columnScales[column + i];
  }
  store_vec(out + at, values);
}

extern "C" __global__ void __launch_bounds__(256) scale_sums(
    const elem_t* sums,    // [numRows, width]; may be `out`
    const float* rowScales,    // [numRows] or null
    const float* columnScales, // [width] or null
    elem_t* out,               // [numRows, width]
    int width) {
  scale_to_elems(sums, rowScales, columnScales, out, width);
}

extern "C" __global__ void __launch_bounds__(256) scale_whole_sums(
    const int* sums,       // [numRows, width]
    const float* rowScales,    // [numRows] or null
    const float* columnScales, // [width] or null
    elem_t* out,               // [numRows, width]
    int width) {
  scale_to_elems(sums, rowScales, columnScales, out, width);
}
