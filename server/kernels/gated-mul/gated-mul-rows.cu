// out [numRows, width] = act(gate) * up as codes with a scale per row. A block holds a row in registers, VECTORS vectors
// a thread, to find its scale. Options: gated-vector.cuh, quantize.cuh.
// Roofline: bytes. A launch reads 2 * numRows * width elements and writes numRows * width codes; about 2 FLOP a byte.
// Source: SwiGLU and GeGLU (Shazeer 2020); per-token scales of SmoothQuant (Xiao et al. 2022).
#include "gated-vector.cuh"
#include "quantize.cuh"

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
  store_row<VECTORS>(out + (u64)blockIdx.x * width, scales, values, width / ELEM_VEC, scratch);
}
