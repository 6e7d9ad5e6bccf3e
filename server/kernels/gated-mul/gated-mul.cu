// act(gate) * up, where each row holds its gate columns, then its up columns. ACTIVATION: 0 silu, 1 gelu by tanh,
// 2 gelu by erf. `gated_mul` spreads a row over blocks; `gated_mul_rows` keeps a row in one, to find its scale.
#include "activation.cuh"
#include "quantize.cuh"

__device__ __forceinline__ void gated_vector(const elem_t* gate, int width, float (&out)[ELEM_VEC]) {
  float up[ELEM_VEC];
  load_vec(gate, out);
  load_vec(gate + width, up);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) out[i] = activate(out[i]) * up[i];
}

#if !defined(CODE_MAX) || defined(STATIC_SCALE)
extern "C" __global__ void __launch_bounds__(256) gated_mul(
    const elem_t* gateUp, // [numRows, 2 * width]
    out_t* out,           // [numRows, width]
    const float* scale,   // [1]
    int width) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  if (at >= width) return;
  float values[ELEM_VEC];
  gated_vector(gateUp + (u64)blockIdx.y * 2 * width + at, width, values);
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
    int width) {
  __shared__ float scratch[32];
  float values[VECTORS][ELEM_VEC];
  START_NEXT();
  WAIT_FOR_PREVIOUS();
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const int at = (threadIdx.x + v * blockDim.x) * ELEM_VEC;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[v][i] = 0.f;
    if (at < width) gated_vector(gateUp + (u64)blockIdx.x * 2 * width + at, width, values[v]);
  }
  store_row<VECTORS>(out + (u64)blockIdx.x * width, scales + blockIdx.x, values, width / ELEM_VEC, scratch);
}
#endif
