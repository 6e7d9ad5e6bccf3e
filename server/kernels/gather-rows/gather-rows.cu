// out[i] = scale * table[ids[i]]: the embedding, and the rows that logits are wanted of. An id outside the table gives
// zeros: padded rows of a recorded step have id -1.
#include "elem.cuh"

extern "C" __global__ void gather_rows(
    const elem_t* table, // [numRows, width]
    const int* ids,      // [count]
    elem_t* out,         // [count, width]
    int numRows, int width, float scale) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  if (at >= width) return;
  const int id = ids[blockIdx.y];
  float values[ELEM_VEC];
  const bool isRow = id >= 0 && id < numRows;
  if (isRow) load_vec(table + (u64)id * width + at, values);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) values[i] = isRow ? values[i] * scale : 0.f;
  store_vec(out + (u64)blockIdx.y * width + at, values);
}
