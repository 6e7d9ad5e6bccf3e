// out = x . weight^T + bias for few rows of x, at the speed at which weights are read. A block takes 16 * TILES outputs;
// its warps take stretches of the inputs in turn and meet only at the end. Weights and rows go straight from memory to
// the registers that feed the tensor cores: which inputs share a step of 16 does not matter as long as both sides agree,
// so a thread reads 32 bytes of a row of weights at a time. Weights set out before the kernel ahead has ended.
// TILES; ROW_TILES: rows of x in eights; WEIGHT_E4M3: codes with a scale a row; OUT_F32; HAS_BIAS.
#include "mma.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define OUTPUTS (16 * TILES)
#define ROWS (8 * ROW_TILES)
#if defined(WEIGHT_E4M3)
#define RUN 32 // inputs that a thread takes of a chunk
#define PREFETCH 2
#else
#define RUN 16
#define PREFETCH (TILES * ROW_TILES == 1 ? 4 : 2)
#endif
#define CHUNK (4 * RUN)
#define STEPS (RUN / 4)

#if defined(OUT_F32)
typedef float out_t;
__device__ __forceinline__ out_t to_out(float value) { return value; }
__device__ __forceinline__ float from_out(out_t value) { return value; }
#else
typedef u16 out_t;
__device__ __forceinline__ out_t to_out(float value) { return float_to_bf16(value); }
__device__ __forceinline__ float from_out(out_t value) { return bf16_to_float(value); }
#endif

__device__ __forceinline__ uint4 load_once(const u8* at) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at));
  return value;
}

__device__ __forceinline__ uint4 load_rows(const u16* at) { return *reinterpret_cast<const uint4*>(at); }

__device__ __forceinline__ u32 word_of(const uint4 (&run)[2], int i) {
  const uint4& four = run[i >> 2];
  return (i & 3) == 0 ? four.x : (i & 3) == 1 ? four.y : (i & 3) == 2 ? four.z : four.w;
}

struct Weights {
  uint4 runs[TILES][2][2]; // rows g and g + 8 of each 16, 32 bytes each
};

struct Rows {
  uint4 runs[ROW_TILES][RUN / 8]; // row g of each eight
};

#if defined(WEIGHT_E4M3)
// Two codes as bf16, 2^120 too small: sign, exponent and fraction only move to their places.
__device__ __forceinline__ u32 spread(u32 codes, u32 selector) {
  const u32 wide = __byte_perm(codes, 0, selector);
  return ((wide >> 4) & 0x07f007f0u) | (wide & 0x80008000u);
}
#define UNDO_SPREAD 1.329227995784916e36f
#endif

// The four registers of an A fragment: inputs 4 * step to 4 * step + 3 of the thread's run.
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

extern "C" __global__ void __launch_bounds__(THREADS, 2) thin_linear(
    const u16* x,        // bf16 [numRows, inputs]
    const u8* weight,    // [outputs, inputs]
    const float* scales, // [outputs] of codes
    const out_t* bias,   // [outputs]
    out_t* out,          // [numRows, outputs]
    int numRows, int outputs, int inputs) {
  __shared__ float warpSums[WARPS][ROWS][OUTPUTS + 1];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUTS, firstRow = blockIdx.y * ROWS;
  const int numChunks = inputs / CHUNK;
  const u64 rowBytes = (u64)inputs * 32 / RUN;

  const u8* from = weight + (u64)(firstOutput + g) * rowBytes + t * 32;
  const auto load_weights = [&](int chunk, Weights& weights) {
    if (chunk >= numChunks) return;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const u8* at = from + (u64)(16 * i + 8 * half) * rowBytes + (u64)chunk * 128;
        weights.runs[i][half][0] = load_once(at);
        weights.runs[i][half][1] = load_once(at + 16);
      }
  };
  const auto load_x = [&](int chunk, Rows& rows) {
    if (chunk >= numChunks) return;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
      const int row = firstRow + 8 * r + g;
#pragma unroll
      for (int i = 0; i < RUN / 8; i++)
        rows.runs[r][i] = row < numRows ? load_rows(x + (u64)row * inputs + chunk * CHUNK + t * RUN + 8 * i)
                                        : make_uint4(0, 0, 0, 0);
    }
  };

  Weights weightsAhead[PREFETCH];
  Rows rowsAhead[PREFETCH];
#pragma unroll
  for (int i = 0; i < PREFETCH; i++) load_weights(warp + i * WARPS, weightsAhead[i]);
  START_NEXT();
  WAIT_FOR_PREVIOUS();
#pragma unroll
  for (int i = 0; i < PREFETCH; i++) load_x(warp + i * WARPS, rowsAhead[i]);

  float sums[TILES][ROW_TILES][4] = {};
  for (int chunk = warp; chunk < numChunks; chunk += WARPS) {
    const Weights weights = weightsAhead[0];
    const Rows rows = rowsAhead[0];
#pragma unroll
    for (int i = 0; i + 1 < PREFETCH; i++) {
      weightsAhead[i] = weightsAhead[i + 1];
      rowsAhead[i] = rowsAhead[i + 1];
    }
    load_weights(chunk + PREFETCH * WARPS, weightsAhead[PREFETCH - 1]);
    load_x(chunk + PREFETCH * WARPS, rowsAhead[PREFETCH - 1]);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      u32 b[ROW_TILES][2];
#pragma unroll
      for (int r = 0; r < ROW_TILES; r++) {
        const uint4& four = rows.runs[r][step >> 1];
        b[r][0] = step & 1 ? four.z : four.x;
        b[r][1] = step & 1 ? four.w : four.y;
      }
#pragma unroll
      for (int i = 0; i < TILES; i++) {
        u32 a[4];
        fragment(weights.runs[i][0], weights.runs[i][1], step, a);
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) mma_bf16(sums[i][r], a, b[r][0], b[r][1]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) warpSums[warp][8 * r + 2 * t + (e & 1)][16 * i + g + (e >> 1) * 8] = sums[i][r][e];
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * OUTPUTS; i += THREADS) {
    const int row = i / OUTPUTS, column = i % OUTPUTS, output = firstOutput + column;
    if (firstRow + row >= numRows) break;
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += warpSums[w][row][column];
#if defined(WEIGHT_E4M3)
    sum = sum * UNDO_SPREAD * scales[output];
#endif
#if defined(HAS_BIAS)
    sum += from_out(bias[output]);
#endif
    out[(u64)(firstRow + row) * outputs + output] = to_out(sum);
  }
}
