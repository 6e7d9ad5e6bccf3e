// Causal prefill attention of a ragged batch over the paged KV cache, on tensor cores. The queries of a sequence are
// the last of its context. A block takes 16 * WARPS queries of one head and walks their keys, 64 at a time. The next
// tile is copied while one is computed; a warp keeps 16 queries and their output in registers. Bound by FLOP: 4 *
// HEAD_DIM for each pair of query and visible key.
// Options: HEAD_DIM, BLOCK_SIZE (a multiple of 16), WARPS, BLOCKS_PER_SM, KV_E4M3, KV_F16, SOFT_CAP, ROW_HALVES 2.
// Source: FlashAttention-2 (Dao 2023), online softmax (Milakov and Gimelshein 2018), PagedAttention (Kwon et al. 2023),
// logit soft-capping (Gemma Team 2024); PTX ISA, mma.sync and cp.async.
#include "attention-tile.cuh"

#define THREADS (WARPS * WARP)
#define QUERIES (16 * WARPS)
// Larger heads leave registers for fewer scores.
#define KEYS (HEAD_DIM > 128 ? 32 : 64)
#define SUBTILES (KEYS / TILE)
#define STAGES 2
#define STAGE_BYTES (2 * SUBTILES * TILE_BYTES)
#define COPIES CEIL_DIV(KEYS * CHUNKS, THREADS)

extern __shared__ __align__(16) u8 shared[];

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) ragged_prefill(
    const u16* q,              // rows of qRowWidth, the queries first
    const kv_t* keys,          // [numBlocks, BLOCK_SIZE, numKvHeads, HEAD_DIM]
    const kv_t* values,        // likewise
    const int* queryStarts,    // [numSequences + 1]: rows of q and out
    const int* contextLengths, // [numSequences], the queries included
    const int* blockTables,    // [numSequences, maxBlocks]
    u16* out,                  // [numTokens, numHeads * HEAD_DIM]
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2;
  const int sequence = blockIdx.z, head = blockIdx.y, kvHead = head / (numHeads / numKvHeads);
  PDL_TRIGGER();
  PDL_WAIT();
  const int queryStart = queryStarts[sequence], numQueries = queryStarts[sequence + 1] - queryStart;
  const int contextLength = contextLengths[sequence], past = contextLength - numQueries;
  // The last queries see most keys: their blocks start first.
  const int numTiles = CEIL_DIV(numQueries, QUERIES);
  if ((int)blockIdx.x >= numTiles) return;
  const int firstQuery = (numTiles - 1 - (int)blockIdx.x) * QUERIES;
  const int endKey = past + min(firstQuery + QUERIES, numQueries);
  const int firstKey = window > 0 ? max(0, past + firstQuery - window + 1) : 0;
  const int startTile = firstKey / KEYS, endTile = CEIL_DIV(endKey, KEYS);

  const int warpQuery = firstQuery + warp * 16;
  const int numRows = min(16, numQueries - warpQuery);
  const int warpFirst = past + warpQuery, warpLast = warpFirst + numRows - 1; // positions
  u32 queries[K_STEPS][4];
  load_queries(queries, q + (i64)(queryStart + warpQuery) * qRowWidth + head * HEAD_DIM, qRowWidth, numRows);

  const int* table = blockTables + (u64)sequence * maxBlocks;
  const int rowBytes = numKvHeads * HEAD_DIM * (int)sizeof(kv_t);
  const u64 headOffset = (u64)kvHead * HEAD_DIM * sizeof(kv_t);
  const auto copy_tile = [&](int tile, int stage) {
    if (tile < endTile) {
      const u32 to = shared_address(shared + stage * STAGE_BYTES);
#pragma unroll
      for (int n = 0; n < COPIES; n++) {
        const int c = threadIdx.x + n * THREADS, row = c / CHUNKS, column = (c % CHUNKS) * 16;
        if (c >= KEYS * CHUNKS) break;
        const int key = tile * KEYS + row;
        // Slots after the last key were never written; blocks before the window may have been freed.
        const bool isKey = key >= firstKey && key < contextLength;
        const int block = isKey ? table[key / BLOCK_SIZE] : 0;
        const u64 from = ((u64)block * BLOCK_SIZE + key % BLOCK_SIZE) * rowBytes + headOffset;
        const u32 tileRow = to + row * ROW_STRIDE;
        copy_chunk(tileRow, reinterpret_cast<const u8*>(keys) + from, column, isKey);
        copy_chunk(tileRow + SUBTILES * TILE_BYTES, reinterpret_cast<const u8*>(values) + from, column, isKey);
      }
    }
    cp_async_commit();
  };

  copy_tile(startTile, 0);
  float sums[N_TILES][4] = {};
  float largest[2] = {MINUS_INFINITY, MINUS_INFINITY}, totals[2] = {0.f, 0.f};
  const float toLog2 = log2_factor(scale, softCap), toCapped = scale / softCap;
  for (int tile = startTile; tile < endTile; tile++) {
    const int stage = (tile - startTile) % STAGES;
    cp_async_wait<0>();
    // All warps have the tile, and none still reads the one before it.
    __syncthreads();
    copy_tile(tile + 1, stage ^ 1);
    const int tileKey = tile * KEYS;
    const bool isSeen = numRows > 0 && tileKey <= warpLast && (window <= 0 || tileKey + KEYS > warpFirst - window + 1);
    if (!isSeen) continue;
    const u8* at = shared + stage * STAGE_BYTES;
    float scores[SUBTILES][2][4] = {};
#pragma unroll
    for (int s = 0; s < SUBTILES; s++) score_tile(scores[s], queries, at + s * TILE_BYTES);
    cap_scores(&scores[0][0][0], SUBTILES * 8, toCapped);
    // Apart from the rest, for most tiles have no edge.
    if (tileKey + KEYS - 1 > warpFirst || (window > 0 && tileKey <= warpLast - window)) {
#pragma unroll
      for (int i = 0; i < SUBTILES * 8; i++) {
        const int position = warpFirst + (i >> 1 & 1) * 8 + g;
        const int key = tileKey + (i >> 2) * 8 + 2 * (lane & 3) + (i & 1);
        const bool isVisible = key <= position && (window <= 0 || key > position - window);
        float& score = scores[i >> 3][i >> 2 & 1][i & 3];
        score = isVisible ? score : MINUS_INFINITY;
      }
    }
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float best = largest[half];
#pragma unroll
      for (int i = 0; i < SUBTILES * 4; i++) best = fmaxf(best, scores[i >> 2][i >> 1 & 1][2 * half + (i & 1)]);
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 1));
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 2));
      // A row that has seen no key yet has no largest score to subtract.
      const float base = best == MINUS_INFINITY ? 0.f : best * toLog2;
      factors[half] = exp2_fast(largest[half] * toLog2 - base);
      largest[half] = best;
      float total = 0.f;
#pragma unroll
      for (int i = 0; i < SUBTILES * 4; i++) {
        float& score = scores[i >> 2][i >> 1 & 1][2 * half + (i & 1)];
        score = exp2_fast(fmaf(score, toLog2, -base));
        total += score;
      }
      totals[half] = totals[half] * factors[half] + total;
    }
    if (__any_sync(FULL_MASK, factors[0] != 1.f || factors[1] != 1.f)) {
#pragma unroll
      for (int j = 0; j < N_TILES; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[j][i] *= factors[i >> 1];
    }
#pragma unroll
    for (int s = 0; s < SUBTILES; s++) {
      const u32 weights[4] = {PACK(scores[s][0][0], scores[s][0][1]), PACK(scores[s][0][2], scores[s][0][3]),
                              PACK(scores[s][1][0], scores[s][1][1]), PACK(scores[s][1][2], scores[s][1][3])};
      add_values(sums, weights, at + (SUBTILES + s) * TILE_BYTES);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float total = totals[half];
    total += __shfl_xor_sync(FULL_MASK, total, 1);
    total += __shfl_xor_sync(FULL_MASK, total, 2);
    const int row = half * 8 + g;
    if (row >= numRows) continue;
    // A padded row has a context of no keys.
    const float factor = total > 0.f ? valueScale / total : 0.f;
    u16* to = out + ((i64)(queryStart + warpQuery + row) * numHeads + head) * HEAD_DIM;
#pragma unroll
    for (int j = 0; j < N_TILES; j++) {
      if (!IS_WHOLE && out_column(j, 0) >= HEAD_DIM) continue;
#if defined(KV_E4M3)
      to[out_column(j, 0)] = float_to_bf16(sums[j][2 * half] * factor);
      to[out_column(j, 1)] = float_to_bf16(sums[j][2 * half + 1] * factor);
#else
      *reinterpret_cast<u32*>(to + out_column(j, 0)) = pack_bf16(sums[j][2 * half] * factor, sums[j][2 * half + 1] * factor);
#endif
    }
  }
}
