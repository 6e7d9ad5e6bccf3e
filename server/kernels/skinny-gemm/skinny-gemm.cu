// Skinny GEMM: out [numRows, outputs] = x [numRows, inputs] . weight^T + bias for few rows. A block takes 16 * TILES
// outputs; its warps take ranges of the inputs in turn and reduce at the end. Sixteen inputs of an mma.sync step may
// come in any order that both operands share (skinny-tile.cuh). A warp copies whole 128-byte lines to shared memory,
// STAGES ahead, and waits for no other warp. The first weights are requested before the previous kernel ends.
// Options: TILES, STAGES; ROW_TILES: rows of x in eights; BLOCKS_PER_SM; WEIGHT_E4M3: FP8 codes with a scale per
// output; OUT_F32; HAS_BIAS.
// Roofline: bytes of the weights. A launch reads outputs * inputs weights for 2 * numRows * outputs * inputs FLOP: with
// 16 rows of bf16, 16 FLOP a byte, of which an H100 needs about 300 to be bound by FLOP.
// Source: PTX ISA, mma.sync, cp.async and griddepcontrol; FP8 E4M3 (Micikevicius et al. 2022).
#include "skinny-tile.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define OUTPUTS (16 * TILES)
#define ROWS (8 * ROW_TILES)
#define STAGE_BYTES (OUTPUTS * LINE)
#define SUM_STRIDE (OUTPUTS + 1)

extern __shared__ __align__(16) u8 shared[];

constexpr bool hasCodes = IS_SET(WEIGHT_E4M3);
typedef Choose<hasCodes, E4m3AsBf16, Bf16Weights> Weights;
typedef Choose<IS_SET(OUT_F32), float, u16> out_t;
typedef float Sums[TILES][ROW_TILES][4];

struct Rows {
  uint4 runs[ROW_TILES][Weights::run / 8]; // of row g of each eight
};

// Multiplies a stage of weights by the rows of x that belong to it.
__device__ __forceinline__ void multiply(const u8* lines, const Rows& rows, Sums& sums) {
  const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    uint4 low[2], high[2];
    load_lines(lines + i * TILE_STAGE_BYTES, g, t, low, high);
#pragma unroll
    for (int step = 0; step < Weights::steps; step++) {
      u32 a[4];
      Weights::fragment(low, high, step, a);
#pragma unroll
      for (int r = 0; r < ROW_TILES; r++) {
        const uint4& four = rows.runs[r][step >> 1];
        mma_bf16(sums[i][r], a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
      }
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) skinny_gemm(
    const u16* x,        // bf16 [numRows, inputs]
    const u8* weight,    // [outputs, inputs]
    const float* scales, // [outputs] of codes
    const out_t* bias,   // [outputs]
    out_t* out,          // [numRows, outputs]
    int numRows, int outputs, int inputs) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUTS, firstRow = blockIdx.y * ROWS;
  const int numChunks = inputs / Weights::chunk;
  const u64 rowBytes = (u64)inputs * 32 / Weights::run;
  const int lineRow = lane >> 3, linePiece = lane & 7;
  const u8* from = weight + (u64)(firstOutput + lineRow) * rowBytes + linePiece * 16;
  u8* stages = shared + warp * STAGES * STAGE_BYTES;
  const u32 copyTo = shared_address(stages) + line_place(lineRow, linePiece);
  const auto copy_weights = [&](int chunk, int stage) {
    if (chunk < numChunks) {
      const u32 to = copyTo + stage * STAGE_BYTES;
#pragma unroll
      for (int i = 0; i < OUTPUTS / 4; i++) cp_async(to + 4 * i * LINE, from + (u64)(4 * i) * rowBytes + (u64)chunk * LINE, true);
    }
    cp_async_commit();
  };
  const auto load_x = [&](int chunk, Rows& rows) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
      const int row = firstRow + 8 * r + g;
      const bool isThere = row < numRows && chunk < numChunks;
      const u16* at = x + (u64)row * inputs + chunk * Weights::chunk;
#pragma unroll
      for (int i = 0; i < Weights::run / 8; i++) {
        const uint4* vector = reinterpret_cast<const uint4*>(at + Weights::place(t, i));
        rows.runs[r][i] = isThere ? *vector : make_uint4(0, 0, 0, 0);
      }
    }
  };

#pragma unroll
  for (int i = 0; i + 1 < STAGES; i++) copy_weights(warp + i * WARPS, i);
  PDL_TRIGGER();
  PDL_WAIT();
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
  for (int i = threadIdx.x; i < ROWS * OUTPUTS; i += THREADS) {
    const int row = i / OUTPUTS, column = i % OUTPUTS, output = firstOutput + column;
    if (firstRow + row >= numRows) break;
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += warpSums[(w * ROWS + row) * SUM_STRIDE + column];
    if constexpr (hasCodes) sum = sum * Weights::factor * scales[output];
    if constexpr (IS_SET(HAS_BIAS)) sum += elem_to_float(bias[output]);
    out[(u64)(firstRow + row) * outputs + output] = float_to<out_t>(sum);
  }
}
