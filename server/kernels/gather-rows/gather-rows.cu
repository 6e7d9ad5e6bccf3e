// out[i] = scale * table[ids[i]], rows of `width`: the embedding look-up, and the choice of rows for logits. An id
// outside the table gives zeros; padded rows of a CUDA graph have id -1. HAS_CARRIED: an id of -2 - r is the token that
// the previous step chose in its row r. Bound by bytes.
// Source: ggml.h, ggml_get_rows (same rows, without the scale); sqrt(width) scale of embeddings (Vaswani et al. 2017).
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
  if constexpr (IS_SET(HAS_CARRIED)) {
    if (id < -1) id = carried[-2 - id];
  }
  float values[ELEM_VEC];
  const bool isRow = id >= 0 && id < numRows;
  if (isRow) load_vec(table + (u64)id * width + at, values);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) values[i] = isRow ? values[i] * scale : 0.f;
  store_vec(out + (u64)blockIdx.y * width + at, values);
}
