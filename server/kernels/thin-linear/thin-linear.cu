// out = x . weight^T + bias for few rows of x, at the speed at which weights are read. A block takes 16 * TILES outputs;
// its warps take stretches of the inputs in turn and meet only at the end. Which inputs share a step of 16 on the tensor
// cores does not matter as long as both sides agree, so a thread takes 16 bytes of a row of weights at a time. A warp copies
// whole lines of 128 bytes to shared memory, STAGES ahead, and waits for no other warp. The first weights set out before
// the kernel ahead has ended.
// TILES, STAGES; ROW_TILES: rows of x in eights; BLOCKS_PER_SM; WEIGHT_E4M3: codes with a scale a row; OUT_F32; HAS_BIAS.
#include "mma.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define OUTPUTS (16 * TILES)
#define ROWS (8 * ROW_TILES)
#if defined(WEIGHT_E4M3)
#define RUN 32 // inputs that a thread takes of a chunk, in two pieces of 16 bytes of weights
#else
#define RUN 16
#endif
#define PIECE (RUN / 2)
#define CHUNK (4 * RUN)
#define STEPS (RUN / 4)
// Of one warp: a line of each row.
#define LINE 128
#define STAGE_BYTES (OUTPUTS * LINE)
#define SUM_STRIDE (OUTPUTS + 1)

extern __shared__ __align__(16) u8 shared[];

#if defined(OUT_F32)
typedef float out_t;
__device__ __forceinline__ out_t to_out(float value) { return value; }
__device__ __forceinline__ float from_out(out_t value) { return value; }
#else
typedef u16 out_t;
__device__ __forceinline__ out_t to_out(float value) { return float_to_bf16(value); }
__device__ __forceinline__ float from_out(out_t value) { return bf16_to_float(value); }
#endif

__device__ __forceinline__ u32 word_of(const uint4 (&run)[2], int i) {
  const uint4& four = run[i >> 2];
  return (i & 3) == 0 ? four.x : (i & 3) == 1 ? four.y : (i & 3) == 2 ? four.z : four.w;
}

struct Rows {
  uint4 runs[ROW_TILES][RUN / 8]; // of row g of each eight
};

#if defined(WEIGHT_E4M3)
// Two codes as bf16, 2^120 too small: sign, exponent and fraction only move to their places.
__device__ __forceinline__ u32 spread(u32 codes, u32 selector) {
  const u32 wide = __byte_perm(codes, 0, selector);
  return ((wide >> 4) & 0x07f007f0u) | (wide & 0x80008000u);
}
#define UNDO_SPREAD 1.329227995784916e36f
#endif

// The four registers of an A fragment: inputs 4 * step to 4 * step + 3 of those that the thread takes.
__device__ __forceinline__ void fragment(const uint4 (&low)[2], const uint4 (&high)[2], int step, u32 (&a)[4]) {
#if defined(WEIGHT_E4M3)
  const u32 lowCodes = word_of(low, step), highCodes = word_of(high, step);
  a[0] = spread(lowCodes, 0x1404);
  a[1] = spread(highCodes, 0x1404);
  a[2] = spread(lowCodes, 0x3424);
  a[3] = spread(highCodes, 0x3424);
#else
  a[0] = word_of(low, 2 * step);
  a[1] = word_of(high, 2 * step);
  a[2] = word_of(low, 2 * step + 1);
  a[3] = word_of(high, 2 * step + 1);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) thin_linear(
    const u16* x,        // bf16 [numRows, inputs]
    const u8* weight,    // [outputs, inputs]
    const float* scales, // [outputs] of codes
    const out_t* bias,   // [outputs]
    out_t* out,          // [numRows, outputs]
    int numRows, int outputs, int inputs) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUTS, firstRow = blockIdx.y * ROWS;
  const int numChunks = inputs / CHUNK;
  const u64 rowBytes = (u64)inputs * 32 / RUN;
  // Eight lanes copy a line. Rows of even and odd number have the halves of their lines changed over, so that the eight
  // threads that read at a time find eight different groups of banks.
  const int lineRow = lane >> 3, linePiece = lane & 7;
  const u8* from = weight + (u64)(firstOutput + lineRow) * rowBytes + linePiece * 16;
  u8* stages = shared + warp * STAGES * STAGE_BYTES;
  const u32 copyTo = shared_address(stages) + lineRow * LINE + (linePiece ^ ((lineRow & 1) << 2)) * 16;
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
      const u16* at = x + (u64)row * inputs + chunk * CHUNK + t * PIECE;
#pragma unroll
      for (int i = 0; i < RUN / 8; i++) {
        const int piece = 8 * i / PIECE, within = 8 * i % PIECE;
        const uint4* vector = reinterpret_cast<const uint4*>(at + piece * 4 * PIECE + within);
        rows.runs[r][i] = isThere ? *vector : make_uint4(0, 0, 0, 0);
      }
    }
  };

#pragma unroll
  for (int i = 0; i + 1 < STAGES; i++) copy_weights(warp + i * WARPS, i);
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  Rows next;
  load_x(warp, next);

  float sums[TILES][ROW_TILES][4] = {};
  int stage = 0;
  for (int chunk = warp; chunk < numChunks; chunk += WARPS) {
    const Rows rows = next;
    cp_async_wait<STAGES - 2>();
    __syncwarp();
    copy_weights(chunk + (STAGES - 1) * WARPS, stage == 0 ? STAGES - 1 : stage - 1);
    load_x(chunk + WARPS, next);
    const u8* lines = stages + stage * STAGE_BYTES + g * LINE;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      uint4 low[2], high[2];
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const u8* at = lines + 16 * i * LINE + ((t + 4 * j) ^ ((g & 1) << 2)) * 16;
        low[j] = *reinterpret_cast<const uint4*>(at);
        high[j] = *reinterpret_cast<const uint4*>(at + 8 * LINE);
      }
#pragma unroll
      for (int step = 0; step < STEPS; step++) {
        u32 a[4];
        fragment(low, high, step, a);
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
          const uint4& four = rows.runs[r][step >> 1];
          mma_bf16(sums[i][r], a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
        }
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  cp_async_wait<0>();
  __syncthreads();

  // The warps' sums meet where the weights were: [WARPS, ROWS, SUM_STRIDE].
  float* warpSums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = 8 * r + 2 * t + (e & 1), column = 16 * i + g + (e >> 1) * 8;
        warpSums[(warp * ROWS + row) * SUM_STRIDE + column] = sums[i][r][e];
      }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * OUTPUTS; i += THREADS) {
    const int row = i / OUTPUTS, column = i % OUTPUTS, output = firstOutput + column;
    if (firstRow + row >= numRows) break;
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += warpSums[(w * ROWS + row) * SUM_STRIDE + column];
#if defined(WEIGHT_E4M3)
    sum = sum * UNDO_SPREAD * scales[output];
#endif
#if defined(HAS_BIAS)
    sum += from_out(bias[output]);
#endif
    out[(u64)(firstRow + row) * outputs + output] = to_out(sum);
  }
}
