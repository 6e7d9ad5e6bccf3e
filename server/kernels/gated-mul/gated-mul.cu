// out [numRows, width] = act(gate) * up, for rows [gate | up] of 2 * width columns. ACTIVATION: 0 SiLU (SwiGLU), 1 GELU
// by tanh, 2 GELU by erf (GeGLU). SUM_SCALES: the rows are unscaled sums of a GEMM of codes. `gated_mul` spreads a row
// over blocks; `gated_mul_rows` keeps a row in one block, to find its quantization scale. Bound by bytes.
// Source: SwiGLU and GeGLU (Shazeer 2020).
#include "activation.cuh"
#include "quantize.cuh"

__device__ __forceinline__ void gated_vector(
    const elem_t* gate, int width, const float* rowScale, const float* columnScales, float (&out)[ELEM_VEC]) {
  float up[ELEM_VEC];
  load_vec(gate, out);
  load_vec(gate + width, up);
#if defined(SUM_SCALES)
  const float row = *rowScale;
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i += 4) {
    const float4 a = *reinterpret_cast<const float4*>(columnScales + i);
    const float4 b = *reinterpret_cast<const float4*>(columnScales + width + i);
    out[i] *= a.x * row, out[i + 1] *= a.y * row, out[i + 2] *= a.z * row, out[i + 3] *= a.w * row;
    up[i] *= b.x * row, up[i + 1] *= b.y * row, up[i + 2] *= b.z * row, up[i + 3] *= b.w * row;
  }
#endif
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) out[i] = activate(out[i]) * up[i];
}

#if !defined(CODE_MAX) || defined(STATIC_SCALE)
extern "C" __global__ void __launch_bounds__(256) gated_mul(
    const elem_t* gateUp, // [numRows, 2 * width]
    out_t* out,           // [numRows, width]
    const float* scale,   // [1]
    const float* rowScales,    // [numRows]
    const float* columnScales, // [2 * width]
    int width) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= width) return;
  float values[ELEM_VEC];
  gated_vector(gateUp + (u64)blockIdx.y * 2 * width + at, width, rowScales + blockIdx.y, columnScales + at, values);
#if defined(CODE_MAX)
  const float inverse = 1.f / *scale;
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) values[i] *= inverse;
#endif
  store_out(out + (u64)blockIdx.y * width + at, values);
}
#else
extern "C" __global__ void __launch_bounds__(1024) gated_mul_rows(
    const elem_t* gateUp, // [numRows, 2 * width]
    out_t* out,           // [numRows, width]
    float* scales,        // [numRows]
    const float* rowScales,    // [numRows]
    const float* columnScales, // [2 * width]
    int width) {
  __shared__ float scratch[32];
  float values[VECTORS][ELEM_VEC];
  PDL_TRIGGER();
  PDL_WAIT();
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = (threadIdx.x + v * blockDim.x) * ELEM_VEC;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] = 0.f;
    if (at >= width) continue;
    const elem_t* gate = gateUp + (u64)blockIdx.x * 2 * width + at;
    gated_vector(gate, width, rowScales + blockIdx.x, columnScales + at, values[v]);
  }
  store_row<VECTORS>(out + (u64)blockIdx.x * width, scales + blockIdx.x, values, width / ELEM_VEC, scratch);
}
#endif
