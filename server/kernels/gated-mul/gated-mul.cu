// out [numRows, width] = act(gate) * up, a row spread over blocks: elements, or codes with a given scale. Options:
// gated-vector.cuh, quantize.cuh.
// Roofline: bytes. A launch reads 2 * numRows * width elements and writes numRows * width; about 2 FLOP a byte.
// Source: SwiGLU and GeGLU (Shazeer 2020).
#include "gated-vector.cuh"
#include "quantize.cuh"

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
  if constexpr (isQuantized) {
    const float inverse = 1.f / *scale;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) values[i] *= inverse;
  }
  store_out(out + (u64)blockIdx.y * width + at, values);
}
