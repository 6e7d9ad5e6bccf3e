// out = x . weight^T + bias for few rows of x, at the speed at which weights are read. Weights lie as in a checkpoint,
// [outputs, inputs], and go straight to registers, as the left operand of the tensor cores; they set out before the
// kernel ahead has ended. A lane reads 16 bytes in a row of a matrix: which inputs a step of the tensor cores sums does
// not matter, as long as both operands agree, so that nothing is reordered. The warps of a block share the inputs.
// TILES: outputs of a block in sixteens; ROW_TILES: rows of x in eights; WEIGHT_E4M3: codes with a scale; ROW_SCALES: a
// scale an output instead of one for all; OUT_F32; HAS_BIAS; GATED: out = act(gate) * up, the first half of the outputs
// being gates (ACTIVATION), TILES then 2.
#define ELEM_BF16 1
#include "activation.cuh"
#include "mma.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define ROWS (8 * ROW_TILES)
#define PARTS 2
#if defined(WEIGHT_E4M3)
#define VALUES 16
typedef u8 weight_t;
#define PREFETCH 2
#else
#define VALUES 8
typedef u16 weight_t;
#define PREFETCH 3
#endif
#define CHUNK (PARTS * 4 * VALUES)
#define X_VECTORS (VALUES / 8)
#define STEPS (VALUES / 4)

#if defined(OUT_F32)
typedef float result_t;
#else
typedef u16 result_t;
#endif

__device__ __forceinline__ uint4 load_weights(const weight_t* at) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at));
  return value;
}

__device__ __forceinline__ u32 word_of(const uint4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// Two e4m3, in the upper bytes of each half, as bf16: the bits in their place are 2^120 too small.
__device__ __forceinline__ u32 e4m3_to_bf16(u32 spread) {
  const u32 small = (spread & 0x80008000u) | ((spread & 0x7f007f00u) >> 4);
  u32 pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(small), "r"(0x7b807b80u), "r"(0x80008000u));
  return pair;
}

// The two registers of a row that one step takes.
__device__ __forceinline__ uint2 step_of(const uint4& weights, int step) {
#if defined(WEIGHT_E4M3)
  const u32 word = word_of(weights, step);
  return make_uint2(e4m3_to_bf16(__byte_perm(word, 0, 0x1404)), e4m3_to_bf16(__byte_perm(word, 0, 0x3424)));
#else
  return make_uint2(word_of(weights, 2 * step), word_of(weights, 2 * step + 1));
#endif
}

struct Weights {
  uint4 vectors[TILES][2][PARTS]; // outputs g and g + 8 of each sixteen
};

struct Inputs {
  uint4 vectors[ROW_TILES][PARTS][X_VECTORS];
};

extern "C" __global__ void __launch_bounds__(THREADS, TILES * ROW_TILES <= 2 ? 2 : 1) skinny_linear(
    const u16* x,           // [numRows, inputs]
    const weight_t* weight, // [outputs, inputs]
    const float* scales,    // [1], or [outputs] with ROW_SCALES
    const u16* bias,        // [outputs]
    result_t* out,          // [numRows, outputs], half as wide when GATED
    int numRows, int inputs, int outputs) {
  __shared__ float sums[WARPS][TILES][ROWS][16];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int numChunks = inputs / CHUNK;
#if defined(GATED)
  const int firstOutput = blockIdx.x * 16, tileStep = outputs / 2;
#else
  const int firstOutput = blockIdx.x * 16 * TILES, tileStep = 16;
#endif
  const int firstRow = blockIdx.y * ROWS;

  // Chunks are asked for in order, a warp's own ones.
  const weight_t* nextWeights = weight + (u64)(firstOutput + g) * inputs + warp * CHUNK + t * VALUES;
  const u16* nextX = x + (u64)(firstRow + g) * inputs + warp * CHUNK + t * VALUES;
  const auto load_chunk = [&](int chunk, Weights& to) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int half = 0; half < 2; half++)
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
          const int output = firstOutput + i * tileStep + half * 8 + g;
          const bool isThere = chunk < numChunks && output < outputs;
          const weight_t* row = nextWeights + (u64)(i * tileStep + half * 8) * inputs;
          to.vectors[i][half][p] = isThere ? load_weights(row + p * 4 * VALUES) : make_uint4(0, 0, 0, 0);
        }
    nextWeights += WARPS * CHUNK;
  };
  const auto load_inputs = [&](int chunk, Inputs& to) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int v = 0; v < X_VECTORS; v++) {
          const int row = firstRow + r * 8 + g;
          const u16* at = nextX + (u64)(r * 8) * inputs + p * 4 * VALUES + v * 8;
          to.vectors[r][p][v] = chunk < numChunks && row < numRows ? *reinterpret_cast<const uint4*>(at)
                                                                   : make_uint4(0, 0, 0, 0);
        }
    nextX += WARPS * CHUNK;
  };

  Weights ahead[PREFETCH];
#pragma unroll
  for (int i = 0; i < PREFETCH; i++) load_chunk(warp + i * WARPS, ahead[i]);
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  Inputs nextInputs;
  load_inputs(warp, nextInputs);
  float c[TILES][ROW_TILES][4] = {};
  // As many turns at once as there are chunks, so that they change places without being moved.
#pragma unroll PREFETCH + 1
  for (int chunk = warp; chunk < numChunks; chunk += WARPS) {
    const Weights weights = ahead[0];
    const Inputs inputsNow = nextInputs;
#pragma unroll
    for (int i = 0; i + 1 < PREFETCH; i++) ahead[i] = ahead[i + 1];
    load_chunk(chunk + PREFETCH * WARPS, ahead[PREFETCH - 1]);
    load_inputs(chunk + WARPS, nextInputs);
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
      for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          const uint2 low = step_of(weights.vectors[i][0][p], s), high = step_of(weights.vectors[i][1][p], s);
          const u32 a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
          for (int r = 0; r < ROW_TILES; r++) {
            const uint4& b = inputsNow.vectors[r][p][s / 2];
            mma_bf16(c[i][r], a, word_of(b, 2 * (s % 2)), word_of(b, 2 * (s % 2) + 1));
          }
        }
  }
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[warp][i][r * 8 + 2 * t + (e & 1)][g + (e >> 1) * 8] = c[i][r][e];
  __syncthreads();

  const auto result_of = [&](int tile, int row, int column) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums[w][tile][row][column];
#if defined(WEIGHT_E4M3) && defined(ROW_SCALES)
    sum *= scales[firstOutput + tile * tileStep + column];
#elif defined(WEIGHT_E4M3)
    sum *= scales[0];
#endif
#if defined(HAS_BIAS)
    sum += bf16_to_float(bias[firstOutput + tile * tileStep + column]);
#endif
    return sum;
  };
  const auto store = [&](u64 at, float value) {
#if defined(OUT_F32)
    out[at] = value;
#else
    out[at] = float_to_bf16(value);
#endif
  };
  const int rows = min(ROWS, numRows - firstRow);
#if defined(GATED)
  const int width = outputs / 2;
  for (int i = threadIdx.x; i < rows * 16; i += THREADS) {
    const int row = i / 16, column = i % 16;
    if (firstOutput + column >= width) continue;
    // As they would be stored between the product and the activation.
    const float gate = as_stored(result_of(0, row, column)), up = as_stored(result_of(1, row, column));
    store((u64)(firstRow + row) * width + firstOutput + column, activate(gate) * up);
  }
#else
  for (int i = threadIdx.x; i < rows * 16 * TILES; i += THREADS) {
    const int row = i / (16 * TILES), inBlock = i % (16 * TILES), output = firstOutput + inBlock;
    if (output < outputs) store((u64)(firstRow + row) * outputs + output, result_of(inBlock / 16, row, inBlock % 16));
  }
#endif
}
