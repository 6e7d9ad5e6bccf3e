// Quantizes rows of activations [numRows, width] to FP8 or INT8 codes, one block a row. The scale of a row is found (per
// token) or, with STATIC_SCALE, given (per tensor). Options: VECTORS a thread; quantize.cuh.
// Roofline: bytes. A launch reads numRows * width elements and writes as many codes.
// Source: FP8 E4M3 (Micikevicius et al. 2022); per-token scales, SmoothQuant (Xiao et al. 2022).
#include "quantize.cuh"

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
  store_row<VECTORS>(out + start, scales, values, numVectors, scratch);
}
