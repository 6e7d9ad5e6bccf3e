// x[rows[i]] = values[i] in place, rows of `width`; a row outside x is skipped. It puts rows of a prompt table in the
// place of embeddings. Bound by bytes.
// Source: ggml.h, ggml_set_rows; prompt tuning (Lester et al. 2021).
#include "elem.cuh"

extern "C" __global__ void replace_rows(
    elem_t* x,            // [numRows, width]
    const int* rows,      // [count]
    const elem_t* values, // [count, width]
    int numRows, int width) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  const int row = rows[blockIdx.y];
  if (at >= width || row < 0 || row >= numRows) return;
  *reinterpret_cast<uint4*>(x + (u64)row * width + at) =
      *reinterpret_cast<const uint4*>(values + (u64)blockIdx.y * width + at);
}
