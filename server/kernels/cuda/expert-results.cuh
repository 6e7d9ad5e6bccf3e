// The end of a unit of expert-wgmma.cu: sums of WGMMA become bf16 results, which pass through shared memory so that a warp
// writes whole lines of 128 bytes.
// Roofline: bytes of the results. A unit of 128 choices and 128 gated outputs writes 32 KiB.
// Source: PTX ISA, stmatrix, register fragments of wgmma.mma_async; epilogues of CUTLASS 3.
#pragma once
#include "expert-unit.cuh"

// Stores the transposes of four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4_transposed(u32 address, const u32 (&in)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(in[0]), "r"(in[1]),
               "r"(in[2]), "r"(in[3])
               : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(u32 address) {
  uint4 loaded;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
               : "r"(address)
               : "memory");
  return loaded;
}

// Sums of one warp group, as wgmma.cuh has them.
typedef float Sums[GROUP_TILES][ROWS / 2];

__device__ __forceinline__ void group_barrier(int group) { asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); }

// The results of a warp group. They pass through shared memory, so that lines of 64 outputs are written at once.
struct Results {
  const Problem& problem;
  const Work& work;
  u32 stagingAt;
  int* choices; // [ROWS], shared
  int group, thread, ownChoice;
  Finish finish[GROUP_TILES][2];

  // Requests what store() needs, before the sums are there.
  __device__ __forceinline__ Results(u32 staging, const Problem& ofProblem, const Work& ofWork, int* choicesOfAll, int ofGroup)
      : problem(ofProblem),
        work(ofWork),
        stagingAt(staging + ofGroup * STAGING_BYTES),
        choices(choicesOfAll + ofGroup * ROWS),
        group(ofGroup),
        thread(threadIdx.x & 127) {
    ownChoice = thread < work.numRows ? work.choices(problem)[thread] : 0;
    const int inTile = (thread >> 5) * 16 + (thread >> 2 & 7), last = problem.outputs - 1;
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        finish[tile][h].load(Weights::factor, problem.scales, problem.bias, (u64)work.expert * problem.matrix_rows() +
                                          min(work.output_of(group, tile) + inTile + 8 * h, last) +
                                          (isGated && tile % 2 == 1 ? problem.outputs : 0));
  }

  __device__ __forceinline__ float result(const Sums& sums, int tile, int i) const {
    const int h = i >> 1 & 1;
    const float value = finish[tile][h](sums[tile][i]);
    if constexpr (isGated) return gated_activation<ACTIVATION>(value, finish[tile + 1][h](sums[tile + 1][i]));
    return value;
  }

  // Transposes a tile to lines of 64 outputs a choice.
  __device__ __forceinline__ void stage(const Sums& sums, int tile) const {
    const int lane = thread & 31, warp = thread >> 5, piece = 2 * warp + (lane >> 3 & 1);
#pragma unroll
    for (int j = 0; j < ROWS / 8; j += 2) {
      u32 pairs[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int at = 4 * j + 2 * i;
        pairs[i] = pack_bf16(result(sums, tile, at), result(sums, tile, at + 1));
      }
      const int row = 8 * (j + (lane >> 4)) + (lane & 7);
      stmatrix_x4_transposed(stagingAt + row * LINE + (((piece ^ row) & 7) << 4), pairs);
    }
  }

  __device__ __forceinline__ void write(int firstOutput) const {
    const int piece = thread & 7, output = firstOutput + 8 * piece;
    if (output >= problem.outputs) return;
#pragma unroll
    for (int i = 0; i < ROWS / 16; i++) {
      const int row = (thread >> 3) + 16 * i;
      if (row >= work.numRows) return;
      const uint4 eight = load_shared_16(stagingAt + row * LINE + (((piece ^ row) & 7) << 4));
      u16* to = problem.out + (u64)choices[row] * problem.outputs + output;
      if (problem.outputs % 8 == 0) {
        *reinterpret_cast<uint4*>(to) = eight;
      } else {
        const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int e = 0; e < 8; e++)
          if (output + e < problem.outputs) to[e] = (u16)(pairs[e / 2] >> 16 * (e & 1));
      }
    }
  }

  __device__ __forceinline__ void store(const Sums& sums) const {
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile += isGated ? 2 : 1) {
      group_barrier(group);
      if (tile == 0 && thread < ROWS) choices[thread] = ownChoice;
      stage(sums, tile);
      group_barrier(group);
      write(work.output_of(group, tile));
    }
  }
};
