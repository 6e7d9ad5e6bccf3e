// Grouped skinny GEMM of a mixture of experts, for few choices an expert: out[choice] = x[row of choice] .
// weight[expert]^T. A block takes 16 * TILES matrix rows of one expert and up to ROWS of its choices; its warps take
// ranges of the inputs in turn and reduce at the end, so that many small blocks keep the memory busy with few tokens.
// Options: TILES, STAGES; ROWS: 8 or 16; BLOCKS_PER_SM; WEIGHT_E4M3: codes with a scale per row (quantize.cu,
// INTERLEAVED); WEIGHT_MXFP4: pack-mxfp4.ts; HAS_BIAS; GATED, ACTIVATION: as in expert-tiles.cu; LISTS_EARLY: the lists were complete before the
// previous kernel started, so that weights are requested before it ends.
// Roofline: bytes of the chosen experts. With one choice an expert, 2 FLOP a weight.
// Source: PTX ISA, mma.sync, cp.async and griddepcontrol; FP8 E4M3 (Micikevicius et al. 2022); mixture of experts
// (Shazeer et al. 2017).
#include "expert-schedule.cuh"
#include "skinny-tile.cuh"

constexpr bool isGated = IS_SET(GATED), readsListsEarly = IS_SET(LISTS_EARLY);
typedef Choose<IS_SET(WEIGHT_E4M3), InterleavedE4m3, Choose<IS_SET(WEIGHT_MXFP4), Mxfp4Weights, Bf16Weights>> Weights;

#define WARPS 8
#define THREADS (WARPS * WARP)
#define MATRIX_ROWS (16 * TILES)
#define OUTPUTS (isGated ? MATRIX_ROWS / 2 : MATRIX_ROWS)
#define ROW_TILES (ROWS / 8)
#define STAGE_BYTES (MATRIX_ROWS * LINE)
#define SUM_STRIDE (MATRIX_ROWS + 1)

extern __shared__ __align__(16) u8 shared[];

typedef float Sums[TILES][ROW_TILES][4];

// Beside a stage of weights.
struct Rows {
  uint4 runs[ROW_TILES][Weights::run / 8]; // of row g of each eight
  BlockScales<Weights> scales[TILES];
};

// Row of the expert's matrix that is row `local` of the block.
__device__ __forceinline__ int matrix_row(int local, int firstOutput, int outputs) {
  if constexpr (!isGated) return firstOutput + local;
  return firstOutput + (local >> 4) * 8 + (local & 7) + (local & 8 ? outputs : 0);
}

__device__ __forceinline__ void multiply(const u8* lines, const Rows& rows, Sums& sums) {
  const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    uint4 low[2], high[2];
    load_lines(lines + i * TILE_STAGE_BYTES, g, t, low, high);
#pragma unroll
    for (int step = 0; step < Weights::steps; step++) {
      u32 a[4];
      rows.scales[i].fragment(low, high, step, a);
#pragma unroll
      for (int r = 0; r < ROW_TILES; r++)
        mma_bf16(sums[i][r], a, Weights::x_low(rows.runs[r], step), Weights::x_high(rows.runs[r], step));
    }
  }
}

// Stages the sums of each warp in shared memory: [WARPS, ROWS, SUM_STRIDE].
__device__ __forceinline__ void stage_sums(float* warpSums, const Sums& sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = 8 * r + 2 * t + (e & 1), column = 16 * i + g + (e >> 1) * 8;
        warpSums[(warp * ROWS + row) * SUM_STRIDE + column] = sums[i][r][e];
      }
}

__device__ __forceinline__ float add_warps(const float* warpSums, int row, int column) {
  float sum = 0.f;
#pragma unroll
  for (int w = 0; w < WARPS; w++) sum += warpSums[(w * ROWS + row) * SUM_STRIDE + column];
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) expert_skinny(
    const u16* x,        // bf16 [numChoices / choicesPerRow, inputs]
    const u8* weight,    // [numExperts, matrixRows, inputs]
    const void* scales,  // f32 [numExperts, matrixRows] of FP8 codes; u8 [.., inputs / 32] of MXFP4
    const float* bias,   // [numExperts, matrixRows]
    const int* counts,   // [numExperts]
    const int* order,    // [numExperts, numTokens]: the choices of each expert
    u16* out,            // bf16 [numChoices, outputs]
    int numExperts, int numTokens, int inputs, int outputs, int choicesPerRow) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  if constexpr (!readsListsEarly) PDL_WAIT();
  // Behind the wait of the first GEMM, so that the second may rely on the lists.
  PDL_TRIGGER();
  // Each warp finds the tile by itself: no barrier before the first weights are requested.
  const ExpertUnit unit = ExpertSchedule(counts, numExperts, 1).find(blockIdx.y);
  const int expert = unit.expert, first = unit.inExpert * ROWS;
  if (expert < 0) return;
  const int numHere = min(ROWS, unit.numRows - first);
  const int* list = order + (u64)expert * numTokens + first;
  const int firstOutput = blockIdx.x * OUTPUTS;
  const u64 firstRow = (u64)expert * (isGated ? 2 * outputs : outputs);
  const int numChunks = CEIL_DIV(inputs, Weights::chunk);
  const u64 rowBytes = (u64)inputs * LINE / Weights::chunk;
  const int lineRow = lane >> 3, linePiece = lane & 7;
  const u8* matrix = weight + firstRow * rowBytes + linePiece * 16;
  u8* stages = shared + warp * STAGES * STAGE_BYTES;
  const u32 copyTo = shared_address(stages);
  const auto copy_weights = [&](int chunk, int stage) {
    if (chunk < numChunks) {
      const u32 to = copyTo + stage * STAGE_BYTES;
      // The last line of a row may be shorter.
      const bool isThere = (u64)chunk * LINE + linePiece * 16 < rowBytes;
#pragma unroll
      for (int i = 0; i < MATRIX_ROWS / 4; i++) {
        const int local = 4 * i + lineRow;
        const u8* from = matrix + matrix_row(local, firstOutput, outputs) * rowBytes + (u64)chunk * LINE;
        cp_async(to + line_place(local, linePiece), isThere ? from : weight, isThere);
      }
    }
    cp_async_commit();
  };
#pragma unroll
  for (int i = 0; i + 1 < STAGES; i++) copy_weights(warp + i * WARPS, i);
  if constexpr (readsListsEarly) PDL_WAIT();

  const u16* rowOf[ROW_TILES];
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    const int row = 8 * r + g;
    rowOf[r] = row < numHere ? x + (u64)(list[row] / choicesPerRow) * inputs : nullptr;
  }
  const auto load_x = [&](int chunk, Rows& rows) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
      rows.scales[i].load(scales, firstRow + matrix_row(16 * i + g, firstOutput, outputs),
                          firstRow + matrix_row(16 * i + g + 8, firstOutput, outputs), chunk, t, inputs);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
#pragma unroll
      for (int i = 0; i < Weights::run / 8; i++) {
        const int k = chunk * Weights::chunk + Weights::place(t, i);
        const uint4* vector = reinterpret_cast<const uint4*>(rowOf[r] + k);
        rows.runs[r][i] = rowOf[r] != nullptr && k < inputs ? *vector : make_uint4(0, 0, 0, 0);
      }
    }
  };
  Rows next;
  load_x(warp, next);
  Sums sums = {};
  int stage = 0;
  for (int chunk = warp; chunk < numChunks; chunk += WARPS) {
    const Rows rows = next;
    cp_async_wait<STAGES - 2>();
    __syncwarp();
    copy_weights(chunk + (STAGES - 1) * WARPS, stage == 0 ? STAGES - 1 : stage - 1);
    load_x(chunk + WARPS, next);
    multiply(stages + stage * STAGE_BYTES, rows, sums);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  cp_async_wait<0>();
  __syncthreads();

  // The warps' sums are reduced in the memory of the weights.
  float* warpSums = reinterpret_cast<float*>(shared);
  stage_sums(warpSums, sums);
  __syncthreads();
  for (int i = threadIdx.x; i < numHere * OUTPUTS; i += THREADS) {
    const int row = i / OUTPUTS, column = i % OUTPUTS, output = firstOutput + column;
    const auto finished = [&](int local, int matrixRow) {
      return finish_sum(add_warps(warpSums, row, local), Weights::factor, scales, bias, firstRow + matrixRow);
    };
    float value;
    if constexpr (isGated) {
      const int local = (column >> 3) * 16 + (column & 7);
      value = gated_activation<ACTIVATION>(finished(local, output), finished(local + 8, output + outputs));
    } else {
      value = finished(column, output);
    }
    out[(u64)list[row] * outputs + output] = float_to_bf16(value);
  }
}
