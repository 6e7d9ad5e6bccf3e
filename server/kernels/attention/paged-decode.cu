// Decode attention: one query per sequence, q [numSequences, numHeads, HEAD_DIM], over the paged KV cache, on tensor
// cores. A block takes one KV head of one sequence, up to 16 of its query heads (GQA), and one split of the keys. Its
// warps take tiles of 16 keys in turn, with cp.async copies in flight, and reduce at the end. The last block of a head
// to finish merges the splits. Bound by bytes: each cached key and value is read once.
// Source: PagedAttention (Kwon et al. 2023), FlashAttention-2 (Dao 2023) with keys split over blocks, online softmax
// (Milakov and Gimelshein 2018), GQA (Ainslie et al. 2023); PTX ISA, mma.sync and cp.async.
// Options: HEAD_DIM, BLOCK_SIZE (a multiple of 16), WARPS, STAGES, ROW_HALVES (1: at most 8 heads a block), KV_E4M3,
// KV_F16, SOFT_CAP.
// ROPE: q holds rows of [queries | keys | values] before RoPE (Su et al. 2021). The block that has the last key rotates
// it and stores it with its value.
#define TWO_CHAINS
#include "attention-tile.cuh"

#define ROWS (8 * ROW_HALVES)
#define THREADS (WARPS * WARP)
// Fewer would cost more to join than to read.
#define MIN_SPLIT_TILES 16
#define STAGE_BYTES (2 * TILE_BYTES)
#define OUT_STRIDE (WIDTH + 8)

extern __shared__ __align__(16) u8 shared[];

#if defined(ROPE)
// Two numbers as the cache has them, in both places.
__device__ __forceinline__ void keep_two(kv_t* here, kv_t* there, int at, float2 two, float inverseScale) {
#if defined(KV_E4M3)
  const u16 pair = pack_e4m3(two.x * inverseScale, two.y * inverseScale);
  *reinterpret_cast<u16*>(here + at) = pair;
  *reinterpret_cast<u16*>(there + at) = pair;
#else
  const u32 pair = PACK(two.x, two.y);
  *reinterpret_cast<u32*>(here + at) = pair;
  *reinterpret_cast<u32*>(there + at) = pair;
#endif
}
#endif

struct Span {
  int first, length;       // keys that the query sees
  int startTile, endTile;  // of this split
  int numSplits;           // that have keys
};

__device__ __forceinline__ Span split_of(int length, int window) {
  Span span;
  span.length = length;
  span.first = window > 0 ? max(0, length - window) : 0;
  const int firstTile = span.first / TILE, numTiles = CEIL_DIV(length, TILE) - firstTile;
  const int wanted = max(MIN_SPLIT_TILES, CEIL_DIV(numTiles, (int)gridDim.x));
  const int perSplit = CEIL_DIV(wanted, WARPS) * WARPS;
  span.numSplits = CEIL_DIV(numTiles, perSplit);
  span.startTile = firstTile + blockIdx.x * perSplit;
  span.endTile = min(span.startTile + perSplit, firstTile + numTiles);
  return span;
}

extern "C" __global__ void __launch_bounds__(THREADS) paged_decode(
    const u16* q,              // rows of qRowWidth, the queries first
    kv_t* keys,                // [numBlocks, BLOCK_SIZE, numKvHeads, HEAD_DIM]
    kv_t* values,              // likewise
    const float* invFreq,      // [HEAD_DIM / 2]
    const int* contextLengths, // [numSequences]; 0 for padding, whose output is zeros
    const int* blockTables,    // [numSequences, maxBlocks]
    u16* out,                  // [numSequences, numHeads * HEAD_DIM]
    float* partials,           // [numSequences, numHeads, numSplits, HEAD_DIM]
    float* partialStats,       // [numSequences, numHeads, numSplits, 2]: largest score, sum of weights
    int* counters,             // [numSequences, gridDim.y], zeros before and after
    float magnitude, float inverseKeyScale, float inverseValueScale,
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2;
  const int sequence = blockIdx.z, kvHead = blockIdx.y % numKvHeads, chunkOfHeads = blockIdx.y / numKvHeads;
  const int group = numHeads / numKvHeads;
  const int headStart = kvHead * group + chunkOfHeads * ROWS, numRows = min(ROWS, group - chunkOfHeads * ROWS);
  PDL_TRIGGER();
  // Lengths and tables came with the step: no kernel writes them.
  const int length = contextLengths[sequence];
  const Span span = split_of(length, window);
  if (blockIdx.x > 0 && (int)blockIdx.x >= span.numSplits) return;
  const int* table = blockTables + (u64)sequence * maxBlocks;
  const auto block_of = [&](int tile) { return tile < span.endTile ? table[tile * TILE / BLOCK_SIZE] : 0; };
  int tile = span.startTile + warp;
  const int lastTile = (length - 1) / TILE;
  int firstBlocks[STAGES];
#pragma unroll
  for (int s = 0; s < STAGES; s++) firstBlocks[s] = block_of(tile + s * WARPS);
#if defined(ROPE)
  __shared__ float2 rotations[HEAD_DIM / 2];
  __shared__ __align__(16) kv_t lastRows[2 * HEAD_DIM]; // key and value
  for (int i = threadIdx.x; i < HEAD_DIM / 2; i += THREADS) {
    float sine, cosine;
    sincosf((float)(length - 1) * invFreq[i], &sine, &cosine);
    rotations[i] = make_float2(cosine * magnitude, sine * magnitude);
  }
  __syncthreads();
  const bool hasLast = length > 0 && lastTile >= span.startTile && lastTile < span.endTile;
#else
  const bool hasLast = false;
#endif
  u8* stages = shared + warp * STAGES * STAGE_BYTES;
  const int rowBytes = numKvHeads * HEAD_DIM * (int)sizeof(kv_t);
  const u64 headOffset = (u64)kvHead * HEAD_DIM * sizeof(kv_t);
  // A key that this block stores is not read from where it goes.
  const int numStored = length - (hasLast ? 1 : 0);
  const auto fetch_tile = [&](int tile, int block, int stage) {
    if (tile < span.endTile) {
      const int key = tile * TILE;
      const u64 start = ((u64)block * BLOCK_SIZE + key % BLOCK_SIZE) * rowBytes + headOffset;
      const u32 to = shared_address(stages + stage * STAGE_BYTES);
#pragma unroll
      for (int c = lane; c < TILE * CHUNKS; c += WARP) {
        const int row = c / CHUNKS, column = (c % CHUNKS) * 16;
        // Slots after the last key were never written.
        const bool isKey = key + row < numStored;
        const u64 from = start + (u64)row * rowBytes;
        copy_chunk(to + row * ROW_STRIDE, reinterpret_cast<const u8*>(keys) + from, column, isKey);
        copy_chunk(to + TILE_BYTES + row * ROW_STRIDE, reinterpret_cast<const u8*>(values) + from, column, isKey);
      }
    }
  };
  const auto copy_tile = [&](int tile, int block, int stage) {
    fetch_tile(tile, block, stage);
    cp_async_commit();
  };

  // All but the last key was written in steps before this one.
#if defined(ROPE)
  const int lateTile = -1;
#else
  const int lateTile = lastTile;
#endif
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (tile + s * WARPS != lateTile) fetch_tile(tile + s * WARPS, firstBlocks[s], s);
    cp_async_commit();
  }
  PDL_WAIT();
  const u64 outStart = ((u64)sequence * numHeads + headStart) * HEAD_DIM;
  if (length <= 0) {
    if (blockIdx.x == 0)
      for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) out[outStart + i] = 0;
    return;
  }

  u32 queries[K_STEPS][4];
  const u16* row = q + (u64)sequence * qRowWidth;
#if defined(ROPE)
  load_rotated_queries(queries, row + headStart * HEAD_DIM, HEAD_DIM, numRows, rotations);
#else
  load_queries(queries, row + headStart * HEAD_DIM, HEAD_DIM, numRows);
#endif
#if defined(ROPE)
  if (hasLast) {
    const u64 to = ((u64)table[(length - 1) / BLOCK_SIZE] * BLOCK_SIZE + (length - 1) % BLOCK_SIZE) * rowBytes + headOffset;
    kv_t* keyTo = reinterpret_cast<kv_t*>(reinterpret_cast<u8*>(keys) + to);
    kv_t* valueTo = reinterpret_cast<kv_t*>(reinterpret_cast<u8*>(values) + to);
    const u16* key = row + (numHeads + kvHead) * HEAD_DIM;
    for (int i = 2 * threadIdx.x; i < HEAD_DIM / 2; i += 2 * THREADS) {
      float2 low, high;
      rotate_pairs(*reinterpret_cast<const u32*>(key + i), *reinterpret_cast<const u32*>(key + HEAD_DIM / 2 + i), rotations + i, low,
               high);
      keep_two(lastRows, keyTo, i, low, inverseKeyScale);
      keep_two(lastRows, keyTo, HEAD_DIM / 2 + i, high, inverseKeyScale);
    }
    const u16* value = key + numKvHeads * HEAD_DIM;
    for (int i = 2 * threadIdx.x; i < HEAD_DIM; i += 2 * THREADS) {
      const u32 pair = *reinterpret_cast<const u32*>(value + i);
      keep_two(lastRows + HEAD_DIM, valueTo, i, make_float2(bf16_low(pair), bf16_high(pair)), inverseValueScale);
    }
    __syncthreads();
  }
#endif
#if !defined(ROPE)
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++)
    if (tile + s * WARPS == lateTile) fetch_tile(lateTile, firstBlocks[s], s);
#endif
  int ahead = tile + (STAGES - 1) * WARPS, aheadBlock = firstBlocks[STAGES - 1], stage = 0, aheadStage = STAGES - 1;

  float sums[N_TILES][4] = {};
  float largest[2] = {MINUS_INFINITY, MINUS_INFINITY}, totals[2] = {0.f, 0.f};
  const float toLog2 = log2_factor(scale, softCap), toCapped = scale / softCap;
  for (; tile < span.endTile; tile += WARPS) {
    // The last tile may have been requested after all others; no request follows it.
    if (tile == lateTile) {
      cp_async_commit();
      cp_async_wait<0>();
    } else {
      cp_async_wait<STAGES - 2>();
    }
    __syncwarp();
    copy_tile(ahead, aheadBlock, aheadStage);
    ahead += WARPS;
    aheadBlock = block_of(ahead);
    aheadStage = aheadStage + 1 == STAGES ? 0 : aheadStage + 1;

    const u8* at = stages + stage * STAGE_BYTES;
#if defined(ROPE)
    if (hasLast && tile == lastTile) {
      for (int c = lane; c < 2 * CHUNKS; c += WARP) {
        const u32 to = (c / CHUNKS) * TILE_BYTES + (length - 1) % TILE * ROW_STRIDE + (c % CHUNKS) * 16;
        *reinterpret_cast<uint4*>(stages + stage * STAGE_BYTES + to) = reinterpret_cast<const uint4*>(lastRows)[c];
      }
      __syncwarp();
    }
#endif
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    float scores[2][4] = {};
    score_tile(scores, queries, at);
    cap_scores(&scores[0][0], 8, toCapped);
    // Apart from the rest, for most tiles have no edge.
    if (tile * TILE < span.first || tile * TILE + TILE > length) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int key = tile * TILE + (i >> 2) * 8 + 2 * (lane & 3) + (i & 1);
        float& score = scores[i >> 2][i & 3];
        score = key >= span.first && key < length ? score : MINUS_INFINITY;
      }
    }
    float factors[2] = {1.f, 1.f};
#pragma unroll
    for (int half = 0; half < ROW_HALVES; half++) {
      float best = largest[half];
#pragma unroll
      for (int i = 0; i < 4; i++) best = fmaxf(best, scores[i >> 1][2 * half + (i & 1)]);
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 1));
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 2));
      const float base = best * toLog2;
      factors[half] = exp2_fast(largest[half] * toLog2 - base);
      largest[half] = best;
      float total = 0.f;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float& score = scores[i >> 1][2 * half + (i & 1)];
        score = exp2_fast(fmaf(score, toLog2, -base));
        total += score;
      }
      totals[half] = totals[half] * factors[half] + total;
    }
    if (__any_sync(FULL_MASK, factors[0] != 1.f || factors[1] != 1.f)) {
#pragma unroll
      for (int j = 0; j < N_TILES; j++)
#pragma unroll
        for (int half = 0; half < ROW_HALVES; half++)
#pragma unroll
          for (int e = 0; e < 2; e++) sums[j][2 * half + e] *= factors[half];
    }
    u32 weights[4] = {PACK(scores[0][0], scores[0][1]), 0, PACK(scores[1][0], scores[1][1]), 0};
    if (ROW_HALVES == 2) {
      weights[1] = PACK(scores[0][2], scores[0][3]);
      weights[3] = PACK(scores[1][2], scores[1][3]);
    }
    add_values(sums, weights, at + TILE_BYTES);
  }
  cp_async_wait<0>();
  __syncthreads();

  // The warps' sums are reduced in the memory of the tiles.
  float* warpSums = reinterpret_cast<float*>(shared);          // [WARPS, ROWS, OUT_STRIDE]
  float* warpStats = warpSums + WARPS * ROWS * OUT_STRIDE;     // [WARPS, ROWS, 2]
#pragma unroll
  for (int half = 0; half < ROW_HALVES; half++) {
    float total = totals[half];
    total += __shfl_xor_sync(FULL_MASK, total, 1);
    total += __shfl_xor_sync(FULL_MASK, total, 2);
    const int row = warp * ROWS + half * 8 + g;
    if ((lane & 3) == 0) {
      warpStats[2 * row] = largest[half] * toLog2;
      warpStats[2 * row + 1] = total;
    }
#pragma unroll
    for (int j = 0; j < N_TILES; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) warpSums[row * OUT_STRIDE + out_column(j, e)] = sums[j][2 * half + e];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) {
    const int row = i / HEAD_DIM, column = i % HEAD_DIM;
    float best = MINUS_INFINITY, sum = 0.f, total = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) best = fmaxf(best, warpStats[2 * (w * ROWS + row)]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const float factor = exp2_fast(warpStats[2 * (w * ROWS + row)] - best);
      sum += factor * warpSums[(w * ROWS + row) * OUT_STRIDE + column];
      total += factor * warpStats[2 * (w * ROWS + row) + 1];
    }
    if (span.numSplits == 1) {
      out[outStart + i] = float_to_bf16(sum / total * valueScale);
      continue;
    }
    const u64 at = ((u64)sequence * numHeads + headStart + row) * gridDim.x + blockIdx.x;
    partials[at * HEAD_DIM + column] = sum;
    if (column == 0) *reinterpret_cast<float2*>(partialStats + 2 * at) = make_float2(best, total);
  }
  if (span.numSplits == 1) return;

  __shared__ bool isLast;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int* counter = counters + sequence * gridDim.y + blockIdx.y;
    isLast = atomicAdd(counter, 1) == span.numSplits - 1;
    if (isLast) *counter = 0;
  }
  __syncthreads();
  if (!isLast) return;
  __threadfence();
  for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) {
    const int row = i / HEAD_DIM, column = i % HEAD_DIM;
    const u64 start = ((u64)sequence * numHeads + headStart + row) * gridDim.x;
    const float2* stats = reinterpret_cast<const float2*>(partialStats) + start;
    float best = MINUS_INFINITY, sum = 0.f, total = 0.f;
#pragma unroll 4
    for (int s = 0; s < span.numSplits; s++) best = fmaxf(best, __ldcg(stats + s).x);
#pragma unroll 4
    for (int s = 0; s < span.numSplits; s++) {
      const float2 stat = __ldcg(stats + s);
      const float factor = exp2_fast(stat.x - best);
      sum += factor * __ldcg(partials + (start + s) * HEAD_DIM + column);
      total += factor * stat.y;
    }
    out[outStart + i] = float_to_bf16(sum / total * valueScale);
  }
}
