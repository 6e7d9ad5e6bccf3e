// Memory layout of adapter matrices, and the tiles of rows that carry each adapter. All rows of a tile share one
// adapter. Source: SGMV of Punica (Chen et al. 2023).
#pragma once
#include "elem.cuh"

// Parts of one linear layer, at most.
#define LORA_PARTS 4

struct LoraPart {
  u64 a;     // elem_t [rank, inputs]; 0: the adapter does not change this part
  u64 b;     // elem_t [outputs, rank]
  int rank;  // a multiple of 16, zeros included
  int column;
  int outputs;
  int unused;
};

// Null when the tile is empty or its adapter has no such part. `first`: of the parts of the linear layer, in an adapter.
__device__ __forceinline__ const LoraPart* lora_part(const u64* adapters, int tile, int first, int part) {
  const u64 adapter = adapters[tile];
  if (adapter == 0) return nullptr;
  const LoraPart* found = reinterpret_cast<const LoraPart*>(adapter) + first + part;
  return found->a == 0 ? nullptr : found;
}

// Address of a row's a . x: f32 [splits, numRows, LORA_PARTS, maxRank].
__device__ __forceinline__ u64 lora_low(int split, int numRows, int row, int part, int maxRank) {
  return (((u64)split * numRows + row) * LORA_PARTS + part) * maxRank;
}
