// x[rows[i]] = values[i], in place; a row outside x is skipped.
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
