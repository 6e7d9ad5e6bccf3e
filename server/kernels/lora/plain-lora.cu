// LoRA of several adapters in f32, element by element, with the contract of lora.cu: for exactness checks. Not tuned.
// Source: LoRA (Hu et al. 2021).
#include "lora-part.cuh"

#define WARPS 8

// Grid: ranks / 8, parts, tiles; a warp for each rank.
extern "C" __global__ void plain_lora_shrink(
    const u64* adapters, const int* tileRows, const elem_t* x, float* low, int firstPart, int inputs, int numRows,
    int maxRank, int rowsPerTile) {
  const int lane = threadIdx.x & 31, rank = blockIdx.x * WARPS + (threadIdx.x >> 5);
  PDL_TRIGGER();
  PDL_WAIT();
  const LoraPart* part = lora_part(adapters, blockIdx.z, firstPart, blockIdx.y);
  if (part == nullptr || rank >= part->rank) return;
  const elem_t* a = reinterpret_cast<const elem_t*>(part->a) + (u64)rank * inputs;
  for (int i = 0; i < rowsPerTile; i++) {
    const int row = tileRows[blockIdx.z * rowsPerTile + i];
    if (row < 0) continue;
    float sum = 0.f;
    for (int k = lane; k < inputs; k += WARP) {
      sum += elem_to_float(x[(u64)row * inputs + k]) * elem_to_float(a[k]);
    }
    sum = warp_sum(sum);
    if (lane == 0) low[lora_low(0, numRows, row, blockIdx.y, maxRank) + rank] = sum;
  }
}

// Grid: outputs / 256, parts, tiles; a thread for each output.
extern "C" __global__ void plain_lora_expand(
    const u64* adapters, const int* tileRows, const float* low, elem_t* y, int firstPart, int width, int numRows,
    int maxRank, int rowsPerTile) {
  const int output = blockIdx.x * WARPS * WARP + threadIdx.x;
  PDL_TRIGGER();
  PDL_WAIT();
  const LoraPart* part = lora_part(adapters, blockIdx.z, firstPart, blockIdx.y);
  if (part == nullptr || output >= part->outputs) return;
  const elem_t* b = reinterpret_cast<const elem_t*>(part->b) + (u64)output * part->rank;
  for (int i = 0; i < rowsPerTile; i++) {
    const int row = tileRows[blockIdx.z * rowsPerTile + i];
    if (row < 0) continue;
    const float* own = low + lora_low(0, numRows, row, blockIdx.y, maxRank);
    float sum = 0.f;
    for (int k = 0; k < part->rank; k++) sum += elem_to_float(b[k]) * own[k];
    elem_t* to = y + (u64)row * width + part->column + output;
    *to = float_to_elem(elem_to_float(*to) + sum);
  }
}
