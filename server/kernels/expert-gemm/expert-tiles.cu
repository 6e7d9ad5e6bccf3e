// Grouped GEMM of a mixture of experts on mma.sync, for any number of choices: out[choice] = x[row of choice] .
// weight[expert]^T, x is [numChoices / choicesPerRow, inputs], weight [numExperts, matrixRows, inputs]. A block takes 64
// matrix rows of one expert and up to ROWS of its choices. The weights are the A operand, so that 8 choices fill a tile.
// GATED: the matrix has gate rows, then up rows; the 16 rows of an A fragment are 8 of each, so that a thread holds both
// sums of act(gate) * up.
// Options: ROWS: 8, 16, 32 or 64; WEIGHT_E4M3: codes with a scale per row (quantize.cu, INTERLEAVED);
// WEIGHT_MXFP4: pack-mxfp4.ts; HAS_BIAS; GATED,
// ACTIVATION.
// Roofline: bytes of the chosen experts for few tokens, FLOP for many.
// Source: mixture of experts (Shazeer et al. 2017; Fedus et al. 2021); PTX ISA, mma.sync.
#include "expert-schedule.cuh"
#include "skinny-tile.cuh"

constexpr bool isGated = IS_SET(GATED);
typedef Choose<IS_SET(WEIGHT_E4M3), InterleavedE4m3, Choose<IS_SET(WEIGHT_MXFP4), Mxfp4Weights, Bf16Weights>> Weights;

#define WARPS 4
#define THREADS (WARPS * WARP)
#define MATRIX_ROWS (16 * WARPS)
#define OUTPUTS (isGated ? MATRIX_ROWS / 2 : MATRIX_ROWS)
#define STAGES 3
// Eight threads that read at a time find eight different groups of banks.
#define ROW_STRIDE (Weights::chunk * 2 + (Weights::chunk == 64 ? 64 : 16))
#define WEIGHT_BYTES (MATRIX_ROWS * LINE)
#define STAGE_BYTES (WEIGHT_BYTES + ROWS * ROW_STRIDE)
#define ROW_TILES (ROWS / 8)
#define WEIGHT_PIECES (LINE / 16)
#define ROW_PIECES (Weights::chunk / 8)

extern __shared__ __align__(16) u8 shared[];

// Row of the expert's matrix that is row `local` of the block.
__device__ __forceinline__ int matrix_row(int local, int firstOutput, int outputs) {
  if constexpr (!isGated) return firstOutput + local;
  return firstOutput + (local >> 4) * 8 + (local & 7) + (local & 8 ? outputs : 0);
}

extern "C" __global__ void __launch_bounds__(THREADS) expert_tiles(
    const u16* x,        // bf16 [numChoices / choicesPerRow, inputs]
    const u8* weight,    // [numExperts, matrixRows, inputs]
    const void* scales,  // f32 [numExperts, matrixRows] of FP8 codes; u8 [.., inputs / 32] of MXFP4
    const float* bias,   // [numExperts, matrixRows]
    const int* counts,   // [numExperts]
    const int* order,    // [numExperts, numTokens]: the choices of each expert
    u16* out,            // bf16 [numChoices, outputs]
    int numExperts, int numTokens, int inputs, int outputs, int choicesPerRow) {
  __shared__ ExpertUnit found;
  __shared__ int choices[ROWS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUTS;
  PDL_WAIT();
  // Behind the wait: the next kernel may rely on the lists.
  PDL_TRIGGER();
  if (warp == 0) {
    const ExpertUnit unit = ExpertSchedule(counts, numExperts, 1).find(blockIdx.y);
    if (lane == 0) found = unit;
  }
  __syncthreads();
  const int expert = found.expert, first = found.inExpert * ROWS;
  if (expert < 0) return;
  const int numHere = min(ROWS, found.numRows - first);
  const int* list = order + (u64)expert * numTokens + first;
  for (int i = threadIdx.x; i < ROWS; i += THREADS) choices[i] = i < numHere ? list[i] : -1;
  __syncthreads();
  const u64 rowBytes = (u64)inputs * LINE / Weights::chunk;
  const u64 firstRow = (u64)expert * (isGated ? 2 * outputs : outputs);
  const u8* matrix = weight + firstRow * rowBytes;
  const int numSteps = CEIL_DIV(inputs, Weights::chunk);
  const auto copy_step = [&](int step) {
    if (step < numSteps) {
      const u32 to = shared_address(shared + (step % STAGES) * STAGE_BYTES);
#pragma unroll
      for (int c = threadIdx.x; c < MATRIX_ROWS * WEIGHT_PIECES; c += THREADS) {
        const int local = c / WEIGHT_PIECES, piece = c % WEIGHT_PIECES, row = matrix_row(local, firstOutput, outputs);
        const u64 at = (u64)step * LINE + piece * 16;
        const bool isThere = at < rowBytes && row < (isGated && (local & 8) ? 2 * outputs : outputs);
        cp_async(to + line_place(local, piece), isThere ? matrix + row * rowBytes + at : weight, isThere);
      }
      for (int c = threadIdx.x; c < ROWS * ROW_PIECES; c += THREADS) {
        const int row = c / ROW_PIECES, piece = c % ROW_PIECES, k = step * Weights::chunk + piece * 8;
        const int choice = choices[row];
        const bool isThere = k < inputs && choice >= 0;
        const u16* from = isThere ? x + (u64)(choice / choicesPerRow) * inputs + k : x;
        cp_async(to + WEIGHT_BYTES + row * ROW_STRIDE + piece * 16, from, isThere);
      }
    }
    cp_async_commit();
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) copy_step(s);
  float sums[ROW_TILES][4] = {};
  // Rows g and g + 8 of the warp's tile; rows after the last one repeat it.
  const int lastRow = (isGated ? 2 * outputs : outputs) - 1;
  const int scaleRow = min(matrix_row(warp * 16 + g, firstOutput, outputs), lastRow);
  const int scaleRow8 = min(matrix_row(warp * 16 + g + 8, firstOutput, outputs), lastRow);
  for (int step = 0; step < numSteps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    copy_step(step + STAGES - 1);
    const u8* stage = shared + (step % STAGES) * STAGE_BYTES;
    BlockScales<Weights> blockScales;
    blockScales.load(scales, firstRow + scaleRow, firstRow + scaleRow8, step, t, inputs);
    uint4 low[2], high[2];
    load_lines(stage + warp * TILE_STAGE_BYTES, g, t, low, high);
    u32 a[Weights::steps][4];
#pragma unroll
    for (int s = 0; s < Weights::steps; s++) blockScales.fragment(low, high, s, a[s]);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
      uint4 runs[Weights::run / 8];
      const u8* row = stage + WEIGHT_BYTES + (8 * r + g) * ROW_STRIDE;
#pragma unroll
      for (int i = 0; i < Weights::run / 8; i++) runs[i] = *reinterpret_cast<const uint4*>(row + 2 * Weights::place(t, i));
#pragma unroll
      for (int s = 0; s < Weights::steps; s++) mma_bf16(sums[r], a[s], Weights::x_low(runs, s), Weights::x_high(runs, s));
    }
  }
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int choice = choices[8 * r + 2 * t + e];
      if (choice < 0) continue;
      const auto finished = [&](float sum, int row) {
        return finish_sum(sum, Weights::factor, scales, bias, firstRow + row);
      };
      u16* to = out + (u64)choice * outputs;
      if constexpr (isGated) {
        const int output = firstOutput + warp * 8 + g;
        if (output < outputs)
          to[output] = float_to_bf16(
              gated_activation<ACTIVATION>(finished(sums[r][e], output), finished(sums[r][e + 2], output + outputs)));
      } else {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int output = firstOutput + warp * 16 + g + 8 * h;
          if (output < outputs) to[output] = float_to_bf16(finished(sums[r][e + 2 * h], output));
        }
      }
    }
}
