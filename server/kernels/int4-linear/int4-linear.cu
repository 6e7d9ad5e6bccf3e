// INT4 weight-only GEMM for few rows: out [numRows, outputs] = x [numRows, inputs] . weight^T + bias. A block takes 64
// outputs and a range of the inputs. Each of its 8 warps takes 128 inputs at a time. Weights go straight to registers
// in the order of the mma.sync A fragment (pack-int4.ts), one step ahead. The rows of x pass through shared memory.
// Weights are the A operand, so that 8 rows of x fill a tile. The last block of a split to finish adds the split-K
// partial sums.
// Options: GROUP: inputs that share a scale, 32, 64 or a multiple of 128; ROW_TILES: rows of x in eights; HAS_ZEROS;
// HAS_BIAS.
// Roofline: bytes of the weights. A launch reads outputs * inputs / 2 bytes of codes and a scale for GROUP of them, for
// 2 * numRows * outputs * inputs FLOP: with 8 rows, 32 FLOP a byte, of which an H200 needs about 200.
// Source: Marlin (Frantar et al. 2024), offline weight shuffle and split-K reduction; PTX ISA, mma.sync fragments.
#include "int4-codes.cuh"
#include "last-block.cuh"

#define WARPS 8
#define THREADS (WARPS * WARP)
#define OUTPUTS 64
#define TILES (OUTPUTS / 16)
#define BLOCK 64
#define CHUNK 128
#define BLOCKS (CHUNK / BLOCK)
#define STEPS (BLOCK / 16)
#define ROWS (8 * ROW_TILES)
#define SEGMENT (WARPS * CHUNK)
// An odd number of 16-byte pieces keeps eight rows in different banks.
#define X_STRIDE (SEGMENT * 2 + 16)
#define X_BYTES (ROWS * X_STRIDE)
#define SCALE_SETS (GROUP < CHUNK ? CHUNK / GROUP : 1)
// Inputs that are summed before their scale is applied: more would take registers that many rows need.
#define FOLD (ROW_TILES > 2 ? 64 : CHUNK)
#define UNIT_STEPS ((GROUP < FOLD ? GROUP : FOLD) / 16)
#define UNITS (CHUNK / 16 / UNIT_STEPS)

constexpr bool hasZeros = IS_SET(HAS_ZEROS);

extern __shared__ __align__(16) u8 shared[];

// Weights of one step of a warp: 64 outputs by 128 inputs.
struct Chunk {
  uint4 weights[BLOCKS][TILES]; // for each 16 outputs, the four steps of 16 inputs
  uint4 scales[SCALE_SETS];     // f16: outputs g and g + 8 of each 16
  u32 zeros[SCALE_SETS];        // with HAS_ZEROS: 4 bits each, in the same order
};

__device__ __forceinline__ uint4 load_once(const uint4* at) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at));
  return value;
}

// The chunks of a warp, in order.
struct ChunkReader {
  const uint4 *codes, *scales;
  const u32* zeros;
  int inputs, endSegment, warp, g;

  __device__ __forceinline__ void load(int segment, Chunk& chunk) {
    const int block = blockIdx.x, numOutBlocks = gridDim.x, k = (segment * WARPS + warp) * CHUNK;
#pragma unroll
    for (int n = 0; n < BLOCKS; n++) {
      const bool isThere = segment < endSegment && k + n * BLOCK < inputs;
#pragma unroll
      for (int i = 0; i < TILES; i++)
        chunk.weights[n][i] = isThere ? load_once(codes + (n * TILES + i) * WARP) : make_uint4(0, 0, 0, 0);
    }
    codes += WARPS * BLOCKS * TILES * WARP;
#pragma unroll
    for (int s = 0; s < SCALE_SETS; s++) {
      // Without scale, inputs past the last add nothing.
      const bool isThere = segment < endSegment && k + s * GROUP < inputs;
      const u32 at = ((u32)(k + s * GROUP) / GROUP * numOutBlocks + block) * 8 + g;
      chunk.scales[s] = isThere ? load_once(scales + at) : make_uint4(0, 0, 0, 0);
      if constexpr (hasZeros) chunk.zeros[s] = isThere ? zeros[at] : 0;
    }
  }
};

// Copies a segment of the rows of x to a stage of shared memory.
__device__ __forceinline__ void copy_x(const u16* x, int inputs, int firstRow, int rows, int segment, int stage) {
  const u32 to = shared_address(shared + stage * X_BYTES);
  for (int c = threadIdx.x; c < rows * (SEGMENT / 8); c += THREADS) {
    const int row = c / (SEGMENT / 8), column = (c % (SEGMENT / 8)) * 8, k = segment * SEGMENT + column;
    const bool isThere = k < inputs;
    cp_async(to + row * X_STRIDE + column * 2, x + (u64)(firstRow + row) * inputs + (isThere ? k : 0), isThere);
  }
}

typedef float RowTiles[ROW_TILES][4];
typedef u32 RowFragments[ROW_TILES][UNIT_STEPS][2];

__device__ __forceinline__ void load_fragments(RowFragments& b, u32 rows) {
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
    for (int n = 0; n < UNIT_STEPS; n += 2) {
      u32 four[4];
      ldmatrix_x4(four, rows + r * 8 * X_STRIDE + n * 32);
      b[r][n][0] = four[0];
      b[r][n][1] = four[1];
      b[r][n + 1][0] = four[2];
      b[r][n + 1][1] = four[3];
    }
}

// The sum of each row of x, by a left operand of ones: the codes' bias of 128 and their zeros are taken off by it.
__device__ __forceinline__ void sum_rows(RowTiles& sums, const RowFragments& b) {
  const u32 ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
  for (int n = 0; n < UNIT_STEPS; n++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) mma_bf16(sums[r], ones, b[r][n][0], b[r][n][1]);
}

// Adds 16 outputs by the inputs of a unit, once scaled.
__device__ __forceinline__ void multiply_tile(RowTiles& sums, const Chunk& chunk, int unit, int i, const RowFragments& b,
                                              const RowTiles& rowSums) {
  const int set = unit * SCALE_SETS / UNITS;
  RowTiles part = {};
#pragma unroll
  for (int n = 0; n < UNIT_STEPS; n++) {
    const int s = unit * UNIT_STEPS + n;
    const u32 word = word_of(chunk.weights[s / STEPS][i], s % STEPS);
    const u32 a[4] = {biased_codes(word, 0), biased_codes(word, 1), biased_codes(word, 2), biased_codes(word, 3)};
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) mma_bf16(part[r], a, b[r][n][0], b[r][n][1]);
  }
  float zeroLow = 136.f, zeroHigh = 136.f;
  if constexpr (hasZeros) {
    zeroLow = 128.f + (float)((chunk.zeros[set] >> (8 * i)) & 15u);
    zeroHigh = 128.f + (float)((chunk.zeros[set] >> (8 * i + 4)) & 15u);
  }
  const u32 pair = word_of(chunk.scales[set], i);
  const float low = f16_to_float((u16)pair), high = f16_to_float((u16)(pair >> 16));
#pragma unroll
  for (int r = 0; r < ROW_TILES; r++) {
    sums[r][0] += low * (part[r][0] - zeroLow * rowSums[r][0]);
    sums[r][1] += low * (part[r][1] - zeroLow * rowSums[r][1]);
    sums[r][2] += high * (part[r][2] - zeroHigh * rowSums[r][2]);
    sums[r][3] += high * (part[r][3] - zeroHigh * rowSums[r][3]);
  }
}

// Multiplies a chunk by its rows of x, which begin at `rows` in shared memory.
__device__ __forceinline__ void multiply_chunk(RowTiles (&sums)[TILES], const Chunk& chunk, u32 rows) {
#pragma unroll
  for (int unit = 0; unit < UNITS; unit++) {
    RowFragments b;
    load_fragments(b, rows + unit * UNIT_STEPS * 32);
    RowTiles rowSums = {};
    sum_rows(rowSums, b);
#pragma unroll
    for (int i = 0; i < TILES; i++) multiply_tile(sums[i], chunk, unit, i, b, rowSums);
  }
}

// Stages the sums of each warp in shared memory: [WARPS, ROWS, OUTPUTS].
__device__ __forceinline__ void stage_sums(float* warpSums, const RowTiles (&sums)[TILES]) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = r * 8 + 2 * t + (e & 1), output = i * 16 + g + (e >> 1) * 8;
        warpSums[(warp * ROWS + row) * OUTPUTS + output] = sums[i][r][e];
      }
}

extern "C" __global__ void __launch_bounds__(THREADS, ROW_TILES == 1 ? 2 : 1) int4_linear(
    const u16* x,        // [numRows, inputs]
    const uint4* codes,  // [outputs / 64, inputs / 64, 4, 32] of four steps
    const uint4* scales, // [inputs / GROUP, outputs / 64, 8] of eight f16
    const u32* zeros,    // [inputs / GROUP, outputs / 64, 8] of eight nibbles
    const u16* bias,     // [outputs]
    u16* out,            // [numRows, outputs]
    float* partials,     // [gridDim.y, numRows, outputs] when inputs are split
    int* counters,       // [outputs / 64, gridDim.z], zeros before and after
    int numRows, int inputs, int outputs) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2;
  const int block = blockIdx.x;
  const int numBlocks = inputs / BLOCK, numSegments = CEIL_DIV(inputs, SEGMENT);
  const int perSplit = CEIL_DIV(numSegments, (int)gridDim.y);
  const int startSegment = blockIdx.y * perSplit, endSegment = min(startSegment + perSplit, numSegments);
  const int firstRow = blockIdx.z * ROWS, rows = min(ROWS, numRows - firstRow);

  // Weights are no earlier kernel's work: they set out before the wait.
  const uint4* firstCodes = codes + ((u64)block * numBlocks + (startSegment * WARPS + warp) * BLOCKS) * (TILES * WARP) + lane;
  ChunkReader reader = {firstCodes, scales, zeros, inputs, endSegment, warp, g};
  Chunk chunks[2];
  reader.load(startSegment, chunks[0]);
  // Rows that fill up the last tile are zeros, once and for all.
  for (int i = threadIdx.x; i < (ROWS - rows) * (X_STRIDE / 16); i += THREADS) {
    *reinterpret_cast<uint4*>(shared + rows * X_STRIDE + i * 16) = make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(shared + X_BYTES + rows * X_STRIDE + i * 16) = make_uint4(0, 0, 0, 0);
  }
  PDL_TRIGGER();
  PDL_WAIT();
  if (startSegment < endSegment) copy_x(x, inputs, firstRow, rows, startSegment, 0);
  cp_async_commit();

  RowTiles sums[TILES] = {};
  const auto run_segment = [&](int segment, const Chunk& chunk, Chunk& free) {
    const int stage = (segment - startSegment) & 1;
    reader.load(segment + 1, free);
    cp_async_wait<0>();
    __syncthreads();
    if (segment + 1 < endSegment) copy_x(x, inputs, firstRow, rows, segment + 1, stage ^ 1);
    cp_async_commit();
    const u32 at = shared_address(shared + stage * X_BYTES) + (lane & 7) * X_STRIDE + warp * CHUNK * 2 + (lane >> 3) * 16;
    multiply_chunk(sums, chunk, at);
  };
  // Unrolled by two, so that chunks swap roles without being moved.
  for (int segment = startSegment; segment < endSegment; segment += 2) {
    run_segment(segment, chunks[0], chunks[1]);
    if (segment + 1 < endSegment) run_segment(segment + 1, chunks[1], chunks[0]);
  }
  cp_async_wait<0>();
  __syncthreads();

  // The warps' sums are reduced in the memory of x.
  float* warpSums = reinterpret_cast<float*>(shared);
  stage_sums(warpSums, sums);
  __syncthreads();
  const auto store = [&](int row, int output, float sum) {
    if constexpr (IS_SET(HAS_BIAS)) sum += bf16_to_float(bias[output]);
    out[(u64)row * outputs + output] = float_to_bf16(sum);
  };
  const u64 splitSize = (u64)numRows * outputs;
  for (int i = threadIdx.x; i < rows * OUTPUTS; i += THREADS) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += warpSums[w * ROWS * OUTPUTS + i];
    const int row = firstRow + i / OUTPUTS, output = block * OUTPUTS + i % OUTPUTS;
    if (gridDim.y == 1)
      store(row, output, sum);
    else
      partials[blockIdx.y * splitSize + (u64)row * outputs + output] = sum;
  }
  if (gridDim.y == 1) return;

  __shared__ bool isLast;
  if (!is_last_block(counters + block * gridDim.z + blockIdx.z, gridDim.y, isLast)) return;
  for (int i = threadIdx.x; i < rows * OUTPUTS; i += THREADS) {
    const int row = firstRow + i / OUTPUTS, output = block * OUTPUTS + i % OUTPUTS;
    const float* from = partials + (u64)row * outputs + output;
    float sum = 0.f;
#pragma unroll 4
    for (int s = 0; s < (int)gridDim.y; s++) sum += __ldcg(from + s * splitSize);
    store(row, output, sum);
  }
}

// Weights as bf16 [outputs, inputs], for GEMMs with many rows. One warp a block of 64 by 64.
extern "C" __global__ void __launch_bounds__(THREADS) int4_decode(
    const uint4* codes, const uint4* scales, const u32* zeros, u16* weight, int inputs, int outputs) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int numBlocks = inputs / BLOCK, numOutBlocks = outputs / OUTPUTS;
  const int k = blockIdx.x * WARPS + (threadIdx.x >> 5), block = blockIdx.y;
  PDL_TRIGGER();
  PDL_WAIT();
  if (k >= numBlocks) return;
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    const uint4 four = codes[(((u64)block * numBlocks + k) * TILES + i) * WARP + lane];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      const u64 at = ((u64)((k * BLOCK + s * 16) / GROUP) * numOutBlocks + block) * 8 + g;
      u32 zeroLow = 0xc308c308u, zeroHigh = 0xc308c308u;
      if constexpr (hasZeros) {
        zeroLow = minus_zero(zeros[at], 2 * i);
        zeroHigh = minus_zero(zeros[at], 2 * i + 1);
      }
      u32 a[4];
      decode(word_of(four, s), zeroLow, zeroHigh, a);
      const u32 pair = word_of(scales[at], i);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const float scale = f16_to_float((u16)(e & 1 ? pair >> 16 : pair));
        const int output = block * OUTPUTS + i * 16 + g + (e & 1) * 8;
        const int input = k * BLOCK + s * 16 + 2 * t + (e >> 1) * 8;
        *reinterpret_cast<u32*>(weight + (u64)output * inputs + input) =
            pack_bf16(scale * bf16_low(a[e]), scale * bf16_high(a[e]));
      }
    }
  }
}
