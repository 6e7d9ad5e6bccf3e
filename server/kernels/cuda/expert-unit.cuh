// A grouped GEMM of expert-wgmma.cu as units of work: one expert, up to ROWS of its choices, WIDTH of its outputs. The kernel
// defines its tiles and `Weights` before it includes this.
// Source: persistent grouped GEMM of CUTLASS 3; mixture of experts (Shazeer et al. 2017).
#pragma once
#include "expert-schedule.cuh"

struct Problem {
  const u16* x;
  const void* scales;
  const float* bias;
  const int* counts;
  const int* order;
  u16* out;
  int numExperts, numTokens, inputs, outputs, choicesPerRow;

  // The last one may be shorter: TMA fills its lines with zeros.
  __device__ __forceinline__ int num_chunks() const { return CEIL_DIV(inputs, Weights::chunk); }
  __device__ __forceinline__ int matrix_rows() const { return isGated ? 2 * outputs : outputs; }
  __device__ __forceinline__ StoredScales stored_scales() const { return {scales, numExperts * matrix_rows(), inputs}; }
  __device__ __forceinline__ ExpertSchedule schedule() const {
    return ExpertSchedule(counts, numExperts, CEIL_DIV(outputs, WIDTH));
  }
};

// A unit of work: units of one expert with the same outputs follow each other, so that its weights stay in the L2 cache.
struct Work {
  int expert, first, numRows, firstOutput;

  __device__ __forceinline__ Work(const ExpertUnit& unit)
      : expert(unit.expert),
        first(unit.numTiles == 0 ? 0 : unit.inExpert % unit.numTiles * ROWS),
        numRows(min(ROWS, unit.numRows - first)),
        firstOutput(unit.numTiles == 0 ? 0 : unit.inExpert / unit.numTiles * WIDTH) {}

  __device__ __forceinline__ const int* choices(const Problem& problem) const {
    return problem.order + (u64)expert * problem.numTokens + first;
  }
  // The first row of a tile among the matrix rows of all experts.
  __device__ __forceinline__ int matrix_row(const Problem& problem, int group, int tile) const {
    return expert * problem.matrix_rows() + output_of(group, tile) + (isGated && tile % 2 == 1 ? problem.outputs : 0);
  }
  // First output of a tile of a warp group, and whether it is of the second half of a gated matrix.
  __device__ __forceinline__ int output_of(int group, int tile) const {
    return firstOutput + (isGated ? (group * GROUP_TILES + tile) / 2 : group * GROUP_TILES + tile) * TILE;
  }
};
