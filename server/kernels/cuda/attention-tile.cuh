// Tiles of 16 keys and values in shared memory against 16 queries in registers, shared by the attention kernels on
// mma.sync. GEMMs run in bf16; with an FP16 or FP8 cache they run in f16, to which E4M3 converts exactly.
// Options: HEAD_DIM (a multiple of 4), ROW_HALVES (1: only the first 8 queries count), KV_E4M3, KV_F16, SOFT_CAP.
// Source: FlashAttention-2 (Dao 2023), RoPE (Su et al. 2021); PTX ISA, mma.sync, ldmatrix and cp.async.
#pragma once
#include "mma.cuh"

#define TILE 16
#define LOG2_E 1.4426950408889634f
#define MINUS_INFINITY __uint_as_float(0xff800000u)

#if defined(KV_E4M3)
typedef u8 kv_t;
#define MMA mma_f16
#define PACK pack_f16
#elif defined(KV_F16)
typedef u16 kv_t;
#define MMA mma_f16
#define PACK pack_f16
#else
typedef u16 kv_t;
#define MMA mma_bf16
#define PACK pack_bf16
#endif

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

// 16 bytes of a head, from byte `column` on, to the same place of a row of a tile; zeros unless `isKey`.
__device__ __forceinline__ void copy_chunk(u32 row, const u8* head, int column, bool isKey) {
  if (HEAD_BYTES % 16 == 0) {
    cp_async(row + column, head + column, isKey && (IS_WHOLE || column < HEAD_BYTES));
    return;
  }
#pragma unroll
  for (int i = 0; i < 16; i += 4) cp_async_4(row + column + i, head + column + i, isKey && column + i < HEAD_BYTES);
}

// Column of this thread's element `e` of tile `j` in a row of the output.
__device__ __forceinline__ int out_column(int j, int e) {
  const int t = threadIdx.x & 3;
#if defined(KV_E4M3)
  return (j >> 1) * 16 + 4 * t + 2 * e + (j & 1);
#else
  return 8 * j + 2 * t + e;
#endif
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
__device__ __forceinline__ void load_rotated_queries(u32 (&fragments)[K_STEPS][4], const u16* q, int rowStride, int numRows,
                                                    const float2* rotations) {
  const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
  for (int k = 0; k < K_STEPS / 2; k++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = g + (i & 1) * 8;
#if defined(KV_E4M3)
      const int column = 16 * k + 4 * t + (i >> 1) * 2;
#else
      const int column = 16 * k + 2 * t + (i >> 1) * 8;
#endif
      u32 low = 0, high = 0;
      if ((i & 1) < ROW_HALVES && row < numRows) {
        const u16* at = q + (i64)row * rowStride + column;
        low = *reinterpret_cast<const u32*>(at);
        high = *reinterpret_cast<const u32*>(at + HEAD_DIM / 2);
      }
      float2 a, b;
      rotate_pairs(low, high, rotations + column, a, b);
      fragments[k][i] = PACK(a.x, a.y);
      fragments[k + K_STEPS / 2][i] = PACK(b.x, b.y);
    }
  }
}

__device__ __forceinline__ void load_queries(u32 (&fragments)[K_STEPS][4], const u16* q, int rowStride, int numRows) {
  const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
  for (int k = 0; k < K_STEPS; k++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = g + (i & 1) * 8;
#if defined(KV_E4M3)
      // Four numbers in a row of the key are one register's two and the other's two.
      const int column = 16 * k + 4 * t + (i >> 1) * 2;
#else
      const int column = 16 * k + 2 * t + (i >> 1) * 8;
#endif
      u32 pair = 0;
      const bool isThere = (i & 1) < ROW_HALVES && row < numRows && (IS_WHOLE || column < HEAD_DIM);
      if (isThere) pair = *reinterpret_cast<const u32*>(q + (i64)row * rowStride + column);
#if defined(KV_E4M3) || defined(KV_F16)
      pair = pack_f16(bf16_low(pair), bf16_high(pair));
#endif
      fragments[k][i] = pair;
    }
  }
}

// scores[j]: 16 queries by keys 8j .. 8j + 7 of the tile. With TWO_CHAINS even and odd steps sum apart, to wait less on
// each other where a warp has but one tile to work on.
__device__ __forceinline__ void score_tile(float (&scores)[2][4], const u32 (&queries)[K_STEPS][4], const u8* keys) {
  const int lane = threadIdx.x & 31;
#if defined(TWO_CHAINS)
  float odd[2][4] = {};
#else
  float(&odd)[2][4] = scores;
#endif
#if defined(KV_E4M3)
  const u8* row = keys + (lane >> 2) * ROW_STRIDE + (lane & 3) * 4;
#else
  const u32 address = shared_address(keys) + ((lane >> 4) * 8 + (lane & 7)) * ROW_STRIDE + ((lane >> 3) & 1) * 16;
#endif
#pragma unroll
  for (int k = 0; k < K_STEPS; k++) {
    u32 b[4];
#if defined(KV_E4M3)
    const u32 low = *reinterpret_cast<const u32*>(row + k * 16);
    const u32 high = *reinterpret_cast<const u32*>(row + 8 * ROW_STRIDE + k * 16);
    b[0] = e4m3x2_to_f16x2((u16)low);
    b[1] = e4m3x2_to_f16x2((u16)(low >> 16));
    b[2] = e4m3x2_to_f16x2((u16)high);
    b[3] = e4m3x2_to_f16x2((u16)(high >> 16));
#else
    ldmatrix_x4(b, address + k * 32);
#endif
    if (k % 2 == 0) {
      MMA(scores[0], queries[k], b[0], b[1]);
      MMA(scores[1], queries[k], b[2], b[3]);
    } else {
      MMA(odd[0], queries[k], b[0], b[1]);
      MMA(odd[1], queries[k], b[2], b[3]);
    }
  }
#if defined(TWO_CHAINS)
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) scores[j][i] += odd[j][i];
#endif
}

__device__ __forceinline__ void add_values(float (&sums)[N_TILES][4], const u32 (&weights)[4], const u8* values) {
  const int lane = threadIdx.x & 31;
  const u32 address = shared_address(values) + (lane & 15) * ROW_STRIDE + (lane >> 4) * 16;
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
    u32 b[4] = {};
    if (chunk + 1 < CHUNKS)
      ldmatrix_x4_trans(b, address + chunk * 16);
    else
      ldmatrix_x2_trans(b[0], b[1], shared_address(values) + (lane & 15) * ROW_STRIDE + chunk * 16);
#if defined(KV_E4M3)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (chunk + i >= CHUNKS) continue;
      // Bytes of two keys by two columns: the columns part, so that each register is one column's two keys.
      const u32 upper = __byte_perm(b[2 * i], 0, 0x3120), lower = __byte_perm(b[2 * i + 1], 0, 0x3120);
      const int j = 2 * (chunk + i);
      MMA(sums[j], weights, e4m3x2_to_f16x2((u16)upper), e4m3x2_to_f16x2((u16)lower));
      MMA(sums[j + 1], weights, e4m3x2_to_f16x2((u16)(upper >> 16)), e4m3x2_to_f16x2((u16)(lower >> 16)));
    }
#else
    MMA(sums[chunk], weights, b[0], b[1]);
    MMA(sums[chunk + 1], weights, b[2], b[3]);
#endif
  }
}

// Factor from a score (before its scale, or in -1 to 1 if capped) to an exponent of two.
__device__ __forceinline__ float log2_factor(float scale, float softCap) {
#if defined(SOFT_CAP)
  return softCap * LOG2_E;
#else
  return scale * LOG2_E;
#endif
}

__device__ __forceinline__ void cap_scores(float* scores, int count, float toCapped) {
#if defined(SOFT_CAP)
#pragma unroll
  for (int i = 0; i < count; i++) scores[i] = tanhf(scores[i] * toCapped);
#endif
}
