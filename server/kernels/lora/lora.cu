// LoRA of several adapters in one step: y[row] += b . (a . x[row]) for rows that carry an adapter, in bf16 on tensor
// cores with f32 sums. a is [rank, inputs], b [outputs, rank]. lora_shrink computes a . x, split over the inputs where
// rows are few; lora_expand adds b times that. A tile holds ROWS rows (8 or 32) of one adapter.
// Roofline: bytes of the adapters, rank * (inputs + outputs) bf16 for each adapter and part of a launch, for 2 * rows FLOP
// each.
// Options: X_E4M3: x holds codes with a scale per row. SUM_SCALES: y holds unscaled sums of a GEMM of codes; the reader
// applies the scales. Inputs are a multiple of 8.
// Source: LoRA (Hu et al. 2021), SGMV of Punica (Chen et al. 2023); PTX ISA, mma.sync.
#include "lora-part.cuh"
#include "mma.cuh"

#define SHRINK_WARPS 8
#define EXPAND_WARPS 4
#define TILES (ROWS / 8)
#define RANKS 16
#define DEPTH 32
#define OUTPUTS 32

typedef Choose<IS_SET(X_E4M3), u8, u16> x_t;

__device__ __forceinline__ u32 codes_to_bf16(u32 pair) {
  const u32 halves = e4m3x2_to_f16x2((u16)pair);
  return pack_bf16(f16_to_float((u16)halves), f16_to_float((u16)(halves >> 16)));
}

// Eight numbers of x as bf16.
__device__ __forceinline__ uint4 load_x(const u8* at) {
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  return make_uint4(codes_to_bf16(raw.x & 0xffffu), codes_to_bf16(raw.x >> 16), codes_to_bf16(raw.y & 0xffffu),
                    codes_to_bf16(raw.y >> 16));
}
__device__ __forceinline__ uint4 load_x(const u16* at) { return *reinterpret_cast<const uint4*>(at); }

// Grid: ranks / 16, parts x splits, as many as take turns with the tiles; those in front are taken, the others empty.
extern "C" __global__ void __launch_bounds__(SHRINK_WARPS * WARP) lora_shrink(
    const u64* adapters,  // [numTiles]
    const int* tileRows,  // [numTiles, ROWS], -1: none
    const x_t* x,         // [numRows, inputs]
    const float* xScales, // [numRows]
    float* low,           // [splits, numRows, LORA_PARTS, maxRank]
    int numTiles, int firstPart, int inputs, int numRows, int maxRank, int splits) {
  __shared__ float sums[SHRINK_WARPS][RANKS][ROWS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int partIndex = blockIdx.y % LORA_PARTS, split = blockIdx.y / LORA_PARTS, firstRank = blockIdx.x * RANKS;
  const uint4 none = make_uint4(0, 0, 0, 0);
  PDL_TRIGGER();
  PDL_WAIT();
  for (int tile = blockIdx.z; tile < numTiles && adapters[tile] != 0; tile += gridDim.z) {
    const LoraPart* part = lora_part(adapters, tile, firstPart, partIndex);
    if (part == nullptr || firstRank >= part->rank) continue;
    const int* rows = tileRows + tile * ROWS;
    const x_t* from[TILES];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      const int row = rows[i * 8 + g];
      from[i] = row < 0 ? nullptr : x + (u64)row * inputs;
    }
    const u16* a = reinterpret_cast<const u16*>(part->a) + (u64)(firstRank + g) * inputs;
    float c[TILES][4] = {};
    // The order of inputs is the same on both sides, so each lane may take eight that lie side by side.
#pragma unroll 2
    for (int base = (split * SHRINK_WARPS + warp) * DEPTH; base < inputs; base += splits * SHRINK_WARPS * DEPTH) {
      const int k = base + 8 * t;
      const bool isIn = k < inputs;
      const uint4 upper = isIn ? *reinterpret_cast<const uint4*>(a + k) : none;
      const uint4 lower = isIn ? *reinterpret_cast<const uint4*>(a + 8 * (u64)inputs + k) : none;
      const u32 first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
      for (int i = 0; i < TILES; i++) {
        const uint4 own = isIn && from[i] != nullptr ? load_x(from[i] + k) : none;
        mma_bf16(c[i], first, own.x, own.y);
        mma_bf16(c[i], second, own.z, own.w);
      }
    }
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) sums[warp][g + (e >> 1) * 8][i * 8 + 2 * t + (e & 1)] = c[i][e];
    __syncthreads();
    for (int at = threadIdx.x; at < RANKS * ROWS; at += SHRINK_WARPS * WARP) {
      const int rank = at % RANKS, place = at / RANKS, row = rows[place];
      if (row < 0) continue;
      float sum = 0.f;
#pragma unroll
      for (int w = 0; w < SHRINK_WARPS; w++) sum += sums[w][rank][place];
      if constexpr (IS_SET(X_E4M3)) sum *= xScales[row];
      low[lora_low(split, numRows, row, partIndex, maxRank) + firstRank + rank] = sum;
    }
    __syncthreads();
  }
}

// Multiplier of a row for the ranks from `k` on: the sum over the splits as two numbers of bf16 each, so
// that nothing of it is lost.
__device__ __forceinline__ void load_low(const float* at, u64 splitStride, int splits, bool isRow, u32 (&high)[2],
                                         u32 (&rest)[2]) {
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int split = 0; isRow && split < splits; split++) {
    const float4 own = *reinterpret_cast<const float4*>(at + split * splitStride);
    sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
  }
  high[0] = pack_bf16(sum.x, sum.y);
  high[1] = pack_bf16(sum.z, sum.w);
  rest[0] = pack_bf16(sum.x - bf16_low(high[0]), sum.y - bf16_high(high[0]));
  rest[1] = pack_bf16(sum.z - bf16_low(high[1]), sum.w - bf16_high(high[1]));
}

// Grid: columns of y / 128, 1, as many as take turns with the tiles. A lane has four columns that lie side by side, of two
// rows in each eight.
extern "C" __global__ void __launch_bounds__(EXPAND_WARPS * WARP) lora_expand(
    const u64* adapters, const int* tileRows,
    const float* low,  // [splits, numRows, LORA_PARTS, maxRank]
    u16* y,            // [numRows, width]
    const float* rowScales,    // [numRows]
    const float* columnScales, // [width]
    int numTiles, int firstPart, int width, int numRows, int maxRank, int splits) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstColumn = (blockIdx.x * EXPAND_WARPS + warp) * OUTPUTS;
  const u64 splitStride = (u64)numRows * LORA_PARTS * maxRank;
  PDL_TRIGGER();
  PDL_WAIT();
  for (int tile = blockIdx.z; tile < numTiles && adapters[tile] != 0; tile += gridDim.z) {
    const int* rows = tileRows + tile * ROWS;
    for (int p = 0; p < LORA_PARTS; p++) {
      const LoraPart* part = lora_part(adapters, tile, firstPart, p);
      if (part == nullptr) continue;
      const int rank = part->rank, outputs = part->outputs, before = firstColumn - part->column;
      if (before + OUTPUTS <= 0 || before >= outputs) continue;
      const int output = before + 4 * g;
      const bool isWhole = ((width | part->column | outputs) & 3) == 0;
      const bool isMine = output >= 0 && output < outputs;
      uint2 old[TILES][2] = {};
#pragma unroll
      for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int row = rows[i * 8 + 2 * t + e];
          if (!isWhole || !isMine || row < 0) continue;
          old[i][e] = *reinterpret_cast<const uint2*>(y + (u64)row * width + part->column + output);
        }
      const u16* b = reinterpret_cast<const u16*>(part->b);
      float c[2][TILES][4] = {};
      for (int k = 0; k < rank; k += 16) {
        u32 weights[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            const int o = output + 2 * m + half;
            uint2 own = make_uint2(0, 0);
            if (o >= 0 && o < outputs) own = *reinterpret_cast<const uint2*>(b + (u64)o * rank + k + 4 * t);
            weights[m][half] = own.x;
            weights[m][2 + half] = own.y;
          }
#pragma unroll
        for (int i = 0; i < TILES; i++) {
          const int row = rows[i * 8 + g];
          u32 high[2], rest[2];
          const float* at = low + lora_low(0, numRows, max(row, 0), p, maxRank) + k + 4 * t;
          load_low(at, splitStride, splits, row >= 0, high, rest);
#pragma unroll
          for (int m = 0; m < 2; m++) {
            mma_bf16(c[m][i], weights[m], high[0], high[1]);
            mma_bf16(c[m][i], weights[m], rest[0], rest[1]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int row = rows[i * 8 + 2 * t + e];
          if (row < 0) continue;
          float delta[4] = {c[0][i][e], c[0][i][2 + e], c[1][i][e], c[1][i][2 + e]};
          if constexpr (IS_SET(SUM_SCALES)) {
            for (int o = 0; o < 4; o++) {
              const int at = min(max(output + o, 0), outputs - 1);
              delta[o] /= rowScales[row] * columnScales[part->column + at];
            }
          }
          u16* to = y + (u64)row * width + part->column + output;
          if (isWhole) {
            const uint2 was = old[i][e];
            if (!isMine) continue;
            *reinterpret_cast<uint2*>(to) =
                make_uint2(pack_bf16(bf16_low(was.x) + delta[0], bf16_high(was.x) + delta[1]),
                           pack_bf16(bf16_low(was.y) + delta[2], bf16_high(was.y) + delta[3]));
          } else {
            for (int o = 0; o < 4; o++) {
              if (output + o < 0 || output + o >= outputs) continue;
              to[o] = float_to_bf16(bf16_to_float(to[o]) + delta[o]);
            }
          }
        }
    }
  }
}
