// Tiles of 16 keys and values in shared memory against 16 queries in registers, shared by the attention kernels on
// mma.sync. GEMMs run in bf16; with an FP16 or FP8 cache they run in f16, to which E4M3 converts exactly.
// Options: HEAD_DIM (a multiple of 4), ROW_HALVES (1: only the first 8 queries count), KV_E4M3, KV_F16, SOFT_CAP.
// Source: FlashAttention-2 (Dao 2023), RoPE (Su et al. 2021); PTX ISA, mma.sync, ldmatrix and cp.async.
#pragma once
#include "kv-element.cuh"
#include "online-softmax.cuh"

#define TILE 16

constexpr bool isHalf = isKvE4m3 || isKvF16; // the type of GEMMs
constexpr bool hasSoftCap = IS_SET(SOFT_CAP);

// Heads are padded with zeros to the width of MMA instructions.
#define WIDTH (CEIL_DIV(HEAD_DIM, 16) * 16)
#define IS_WHOLE (HEAD_DIM % 16 == 0)
#define HEAD_BYTES (HEAD_DIM * (int)sizeof(kv_t))
#define CHUNKS (WIDTH * (int)sizeof(kv_t) / 16)
// An odd number of 16-byte chunks a row keeps eight rows in different banks.
#define ROW_STRIDE ((CHUNKS | 1) * 16)
#define TILE_BYTES (TILE * ROW_STRIDE)
#define K_STEPS (WIDTH / 16)
#define N_TILES (WIDTH / 8)

// Queries as A fragments.
typedef u32 Queries[K_STEPS][4];
// Sums of values: rows g and g + 8.
typedef float Output[N_TILES][4];

__device__ __forceinline__ u32 pack_operand(float low, float high) {
  return isHalf ? pack_f16(low, high) : pack_bf16(low, high);
}

__device__ __forceinline__ void mma_operand(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (isHalf)
    mma_f16(c, a, b0, b1);
  else
    mma_bf16(c, a, b0, b1);
}

// 16 bytes of a head, from byte `column` on, to the same place of a row of a tile; zeros unless `isKey`.
__device__ __forceinline__ void copy_chunk(u32 row, const u8* head, int column, bool isKey) {
  if constexpr (HEAD_BYTES % 16 == 0) {
    cp_async(row + column, head + column, isKey && (IS_WHOLE || column < HEAD_BYTES));
  } else {
#pragma unroll
    for (int i = 0; i < 16; i += 4) cp_async_4(row + column + i, head + column + i, isKey && column + i < HEAD_BYTES);
  }
}

// Column of this thread's element `e` of tile `j` in a row of the output.
__device__ __forceinline__ int out_column(int j, int e) {
  const int t = threadIdx.x & 3;
  return isKvE4m3 ? (j >> 1) * 16 + 4 * t + 2 * e + (j & 1) : 8 * j + 2 * t + e;
}

// Column of register `i` of step `k` of the queries. With FP8 keys, four adjacent numbers of the key are two of one
// register and two of the other.
__device__ __forceinline__ int query_column(int k, int i) {
  const int t = threadIdx.x & 3;
  return isKvE4m3 ? 16 * k + 4 * t + (i >> 1) * 2 : 16 * k + 2 * t + (i >> 1) * 8;
}

// Rotates two numbers with their partners half a head further; `rotations`: cosine and sine of the first of them.
__device__ __forceinline__ void rotate_pairs(u32 low, u32 high, const float2* rotations, float2& lowOut, float2& highOut) {
  const float2 first = rotations[0], second = rotations[1];
  lowOut = make_float2(bf16_low(low) * first.x - bf16_low(high) * first.y,
                       bf16_high(low) * second.x - bf16_high(high) * second.y);
  highOut = make_float2(bf16_low(high) * first.x + bf16_low(low) * first.y,
                        bf16_high(high) * second.x + bf16_high(low) * second.y);
}

// load_queries() of rows before RoPE. `rotations`: [HEAD_DIM / 2]
__device__ __forceinline__ void load_rotated_queries(Queries& fragments, const u16* q, int rowStride, int numRows,
                                                    const float2* rotations) {
  const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
  for (int k = 0; k < K_STEPS / 2; k++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = g + (i & 1) * 8, column = query_column(k, i);
      u32 low = 0, high = 0;
      if ((i & 1) < ROW_HALVES && row < numRows) {
        const u16* at = q + (i64)row * rowStride + column;
        low = *reinterpret_cast<const u32*>(at);
        high = *reinterpret_cast<const u32*>(at + HEAD_DIM / 2);
      }
      float2 a, b;
      rotate_pairs(low, high, rotations + column, a, b);
      fragments[k][i] = pack_operand(a.x, a.y);
      fragments[k + K_STEPS / 2][i] = pack_operand(b.x, b.y);
    }
  }
}

__device__ __forceinline__ void load_queries(Queries& fragments, const u16* q, int rowStride, int numRows) {
  const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
  for (int k = 0; k < K_STEPS; k++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = g + (i & 1) * 8, column = query_column(k, i);
      u32 pair = 0;
      const bool isThere = (i & 1) < ROW_HALVES && row < numRows && (IS_WHOLE || column < HEAD_DIM);
      if (isThere) pair = *reinterpret_cast<const u32*>(q + (i64)row * rowStride + column);
      fragments[k][i] = isHalf ? pack_f16(bf16_low(pair), bf16_high(pair)) : pair;
    }
  }
}

// B fragments of 16 keys for one step: registers of keys 0 to 7, then of keys 8 to 15.
struct KeyReader {
  const u8* row;
  u32 address;

  __device__ __forceinline__ KeyReader(const u8* keys) {
    const int lane = threadIdx.x & 31;
    row = keys + (lane >> 2) * ROW_STRIDE + (lane & 3) * 4;
    address = shared_address(keys) + ((lane >> 4) * 8 + (lane & 7)) * ROW_STRIDE + ((lane >> 3) & 1) * 16;
  }

  __device__ __forceinline__ void load(int k, u32 (&b)[4]) const {
    if constexpr (isKvE4m3) {
      const u32 low = *reinterpret_cast<const u32*>(row + k * 16);
      const u32 high = *reinterpret_cast<const u32*>(row + 8 * ROW_STRIDE + k * 16);
      b[0] = e4m3x2_to_f16x2((u16)low);
      b[1] = e4m3x2_to_f16x2((u16)(low >> 16));
      b[2] = e4m3x2_to_f16x2((u16)high);
      b[3] = e4m3x2_to_f16x2((u16)(high >> 16));
    } else {
      ldmatrix_x4(b, address + k * 32);
    }
  }
};

// scores[j]: 16 queries by keys 8j .. 8j + 7 of the tile. With two chains, even and odd steps sum apart, to wait less on
// each other where a warp has but one tile to work on.
template <bool hasTwoChains>
__device__ __forceinline__ void score_tile(float (&scores)[2][4], const Queries& queries, const u8* keys) {
  float second[2][4] = {};
  float(&odd)[2][4] = hasTwoChains ? second : scores;
  const KeyReader reader(keys);
#pragma unroll
  for (int k = 0; k < K_STEPS; k++) {
    u32 b[4];
    reader.load(k, b);
    if (k % 2 == 0) {
      mma_operand(scores[0], queries[k], b[0], b[1]);
      mma_operand(scores[1], queries[k], b[2], b[3]);
    } else {
      mma_operand(odd[0], queries[k], b[0], b[1]);
      mma_operand(odd[1], queries[k], b[2], b[3]);
    }
  }
  if constexpr (hasTwoChains) {
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) scores[j][i] += second[j][i];
  }
}

// Adds two tiles of eight columns, of which `b` has the 16 keys.
__device__ __forceinline__ void add_chunks(Output& sums, const u32 (&weights)[4], int chunk, const u32 (&b)[4]) {
  if constexpr (!isKvE4m3) {
    mma_operand(sums[chunk], weights, b[0], b[1]);
    mma_operand(sums[chunk + 1], weights, b[2], b[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (chunk + i >= CHUNKS) continue;
      // Bytes of two keys by two columns: the columns part, so that each register is one column's two keys.
      const u32 upper = __byte_perm(b[2 * i], 0, 0x3120), lower = __byte_perm(b[2 * i + 1], 0, 0x3120);
      const int j = 2 * (chunk + i);
      mma_operand(sums[j], weights, e4m3x2_to_f16x2((u16)upper), e4m3x2_to_f16x2((u16)lower));
      mma_operand(sums[j + 1], weights, e4m3x2_to_f16x2((u16)(upper >> 16)), e4m3x2_to_f16x2((u16)(lower >> 16)));
    }
  }
}

__device__ __forceinline__ void add_values(Output& sums, const u32 (&weights)[4], const u8* values) {
  const int lane = threadIdx.x & 31;
  const u32 address = shared_address(values) + (lane & 15) * ROW_STRIDE + (lane >> 4) * 16;
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
    u32 b[4] = {};
    if (chunk + 1 < CHUNKS)
      ldmatrix_x4_trans(b, address + chunk * 16);
    else
      ldmatrix_x2_trans(b[0], b[1], shared_address(values) + (lane & 15) * ROW_STRIDE + chunk * 16);
    add_chunks(sums, weights, chunk, b);
  }
}

// Factor from a score (before its scale, or in -1 to 1 if capped) to an exponent of two.
__device__ __forceinline__ float log2_factor(float scale, float softCap) {
  return (hasSoftCap ? softCap : scale) * LOG2_E;
}

template <int N>
__device__ __forceinline__ void cap_scores(float (&scores)[N], float toCapped) {
  if constexpr (hasSoftCap) {
#pragma unroll
    for (int i = 0; i < N; i++) scores[i] = tanhf(scores[i] * toCapped);
  }
}
