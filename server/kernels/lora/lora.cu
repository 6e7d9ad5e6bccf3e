// y += b . (a . x) for rows that carry adapters, in bf16 on tensor cores with sums in f32: lora_shrink makes a . x, of
// parts of the inputs by themselves where rows are few, and lora_expand adds the rest. A tile holds ROWS rows (8 or 32) of
// one adapter. X_E4M3: x holds codes with a scale each row. Inputs are a multiple of 8.
#include "lora-part.cuh"
#include "mma.cuh"

#define WARPS 4
#define THREADS (WARPS * WARP)
#define TILES (ROWS / 8)
#define RANKS 16
#define DEPTH 32
#define OUTPUTS 32

#if defined(X_E4M3)
typedef u8 x_t;
__device__ __forceinline__ u32 codes_to_bf16(u32 pair) {
  const u32 halves = e4m3x2_to_f16x2((u16)pair);
  return pack_bf16(f16_to_float((u16)halves), f16_to_float((u16)(halves >> 16)));
}
__device__ __forceinline__ uint4 load_x(const u8* at) {
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  return make_uint4(codes_to_bf16(raw.x & 0xffffu), codes_to_bf16(raw.x >> 16), codes_to_bf16(raw.y & 0xffffu),
                    codes_to_bf16(raw.y >> 16));
}
#else
typedef u16 x_t;
__device__ __forceinline__ uint4 load_x(const u16* at) { return *reinterpret_cast<const uint4*>(at); }
#endif

// Grid: ranks / 16, parts x splits, tiles.
extern "C" __global__ void __launch_bounds__(THREADS) lora_shrink(
    const u64* adapters,  // [tiles]
    const int* tileRows,  // [tiles, ROWS], -1: none
    const x_t* x,         // [numRows, inputs]
    const float* xScales, // [numRows]
    float* low,           // [splits, numRows, LORA_PARTS, maxRank]
    int firstPart, int inputs, int numRows, int maxRank, int splits) {
  __shared__ float sums[WARPS][RANKS][ROWS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int partIndex = blockIdx.y % LORA_PARTS, split = blockIdx.y / LORA_PARTS, firstRank = blockIdx.x * RANKS;
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  const LoraPart* part = lora_part(adapters, blockIdx.z, firstPart, partIndex);
  if (part == nullptr || firstRank >= part->rank) return;
  const int* rows = tileRows + blockIdx.z * ROWS;
  const x_t* from[TILES];
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    const int row = rows[i * 8 + g];
    from[i] = row < 0 ? nullptr : x + (u64)row * inputs;
  }
  const u16* a = reinterpret_cast<const u16*>(part->a) + (u64)(firstRank + g) * inputs;
  const uint4 none = make_uint4(0, 0, 0, 0);
  float c[TILES][4] = {};
  // The order of inputs is the same on both sides, so each lane may take eight that lie side by side.
#pragma unroll 2
  for (int base = (split * WARPS + warp) * DEPTH; base < inputs; base += splits * WARPS * DEPTH) {
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
  for (int at = threadIdx.x; at < RANKS * ROWS; at += THREADS) {
    const int rank = at % RANKS, place = at / RANKS, row = rows[place];
    if (row < 0) continue;
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums[w][rank][place];
#if defined(X_E4M3)
    sum *= xScales[row];
#endif
    low[lora_low(split, numRows, row, partIndex, maxRank) + firstRank + rank] = sum;
  }
}

// Grid: outputs / 128, parts, tiles. A lane holds four outputs that lie side by side, of two rows in each eight.
extern "C" __global__ void __launch_bounds__(THREADS) lora_expand(
    const u64* adapters, const int* tileRows,
    const float* low,  // [splits, numRows, LORA_PARTS, maxRank]
    u16* y,            // [numRows, width]
    int firstPart, int width, int numRows, int maxRank, int splits) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int output = (blockIdx.x * WARPS + warp) * OUTPUTS + 4 * g;
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  const LoraPart* part = lora_part(adapters, blockIdx.z, firstPart, blockIdx.y);
  if (part == nullptr) return;
  const int* rows = tileRows + blockIdx.z * ROWS;
  const int rank = part->rank, outputs = part->outputs;
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
        if (o < outputs) own = *reinterpret_cast<const uint2*>(b + (u64)o * rank + k + 4 * t);
        weights[m][half] = own.x;
        weights[m][2 + half] = own.y;
      }
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      const int row = rows[i * 8 + g];
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
      for (int split = 0; row >= 0 && split < splits; split++) {
        const float* at = low + lora_low(split, numRows, row, blockIdx.y, maxRank) + k + 4 * t;
        const float4 own = *reinterpret_cast<const float4*>(at);
        sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
      }
      // As two numbers of bf16 each, so that nothing of the sums is lost.
      const u32 high[2] = {pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w)};
      const u32 rest[2] = {pack_bf16(sum.x - bf16_low(high[0]), sum.y - bf16_high(high[0])),
                           pack_bf16(sum.z - bf16_low(high[1]), sum.w - bf16_high(high[1]))};
#pragma unroll
      for (int m = 0; m < 2; m++) {
        mma_bf16(c[m][i], weights[m], high[0], high[1]);
        mma_bf16(c[m][i], weights[m], rest[0], rest[1]);
      }
    }
  }
  const bool isWhole = ((width | part->column | outputs) & 3) == 0;
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = rows[i * 8 + 2 * t + e];
      if (row < 0 || output >= outputs) continue;
      const float delta[4] = {c[0][i][e], c[0][i][2 + e], c[1][i][e], c[1][i][2 + e]};
      u16* to = y + (u64)row * width + part->column + output;
      if (isWhole) {
        uint2* words = reinterpret_cast<uint2*>(to);
        const uint2 old = *words;
        *words = make_uint2(pack_bf16(bf16_low(old.x) + delta[0], bf16_high(old.x) + delta[1]),
                            pack_bf16(bf16_low(old.y) + delta[2], bf16_high(old.y) + delta[3]));
      } else {
        for (int o = 0; o < 4 && output + o < outputs; o++) to[o] = float_to_bf16(bf16_to_float(to[o]) + delta[o]);
      }
    }
}
