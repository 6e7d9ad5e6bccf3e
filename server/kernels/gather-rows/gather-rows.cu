// out[i] = scale * table[ids[i]]: the embedding, and the rows that logits are wanted of. An id outside the table gives
// zeros: padded rows of a recorded step have id -1. HAS_CARRIED: an id of -2 - r is the one that the step before chose in
// its row r.
#include "elem.cuh"

extern "C" __global__ void gather_rows(
    const elem_t* table, // [numRows, width]
    const int* ids,      // [count]
    const int* carried,  // ids of the step before
    elem_t* out,         // [count, width]
    int numRows, int width, float scale) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ELEM_VEC;
  PDL_TRIGGER();
  PDL_WAIT();
  if (at >= width) return;
  int id = ids[blockIdx.y];
#if defined(HAS_CARRIED)
  if (id < -1) id = carried[-2 - id];
#endif
  float values[ELEM_VEC];
  const bool isRow = id >= 0 && id < numRows;
  if (isRow) load_vec(table + (u64)id * width + at, values);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) values[i] = isRow ? values[i] * scale : 0.f;
  store_vec(out + (u64)blockIdx.y * width + at, values);
}
