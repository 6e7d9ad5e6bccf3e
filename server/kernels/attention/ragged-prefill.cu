// Causal prefill attention of a ragged batch over the paged KV cache, on tensor cores. The queries of a sequence are
// the last of its context. A block takes 16 * WARPS queries of one head and walks their keys, 64 at a time. The next
// tile is copied while one is computed; a warp keeps 16 queries and their output in registers.
// Roofline: FLOP, 4 * HEAD_DIM for each pair of query and visible key, of each head. A launch reads each cached key and
// value once for 16 * WARPS queries of a head: as many FLOP a byte.
// Options: HEAD_DIM, BLOCK_SIZE (a multiple of 16), WARPS, BLOCKS_PER_SM, KV_E4M3, KV_F16, SOFT_CAP, HAS_SINKS, ROW_HALVES 2.
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

// Scores of a warp's queries: subtiles of 16 keys.
typedef float Scores[SUBTILES][2][4];
typedef float FlatScores[SUBTILES * 8];

// Copies tiles of the keys that the block's queries see, and of their values.
struct TileReader {
  const u8 *keys, *values;
  const int* table;
  int rowBytes;
  u64 headOffset;
  int firstKey, contextLength, endTile;

  __device__ __forceinline__ void copy(int tile, int stage) const {
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
        copy_chunk(tileRow, keys + from, column, isKey);
        copy_chunk(tileRow + SUBTILES * TILE_BYTES, values + from, column, isKey);
      }
    }
    cp_async_commit();
  }
};

// Queries at positions `first` to `last`, and the keys that they see.
struct Visibility {
  int first, last, window;

  __device__ __forceinline__ bool sees(int tileKey) const {
    return tileKey <= last && (window <= 0 || tileKey + KEYS > first - window + 1);
  }
  // Most tiles have no edge.
  __device__ __forceinline__ bool hasEdge(int tileKey) const {
    return tileKey + KEYS - 1 > first || (window > 0 && tileKey <= last - window);
  }
  __device__ __forceinline__ void mask(Scores& scores, int tileKey) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < SUBTILES * 8; i++) {
      const int position = first + (i >> 1 & 1) * 8 + (lane >> 2);
      const int key = tileKey + (i >> 2) * 8 + 2 * (lane & 3) + (i & 1);
      const bool isVisible = key <= position && (window <= 0 || key > position - window);
      float& score = scores[i >> 3][i >> 2 & 1][i & 3];
      score = isVisible ? score : MINUS_INFINITY;
    }
  }
};

// One tile: scores, their weights, and the values times these.
__device__ __forceinline__ void attend(const u8* at, const Queries& queries, const Visibility& visible, int tileKey,
                                       float toLog2, float toCapped, OnlineSoftmax& softmax, Output& sums) {
  Scores scores = {};
#pragma unroll
  for (int s = 0; s < SUBTILES; s++) score_tile<false>(scores[s], queries, at + s * TILE_BYTES);
  FlatScores& flat = reinterpret_cast<FlatScores&>(scores);
  cap_scores(flat, toCapped);
  if (visible.hasEdge(tileKey)) visible.mask(scores, tileKey);
  const float factors[2] = {softmax.update<true>(flat, 0, toLog2), softmax.update<true>(flat, 1, toLog2)};
  if (__any_sync(FULL_MASK, factors[0] != 1.f || factors[1] != 1.f)) {
#pragma unroll
    for (int j = 0; j < N_TILES; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[j][i] *= factors[i >> 1];
  }
#pragma unroll
  for (int s = 0; s < SUBTILES; s++) {
    const float(&ofKeys)[2][4] = scores[s];
    const u32 weights[4] = {pack_operand(ofKeys[0][0], ofKeys[0][1]), pack_operand(ofKeys[0][2], ofKeys[0][3]),
                            pack_operand(ofKeys[1][0], ofKeys[1][1]), pack_operand(ofKeys[1][2], ofKeys[1][3])};
    add_values(sums, weights, at + (SUBTILES + s) * TILE_BYTES);
  }
}

__device__ __forceinline__ void store_row(u16* to, const Output& sums, int half, float factor) {
#pragma unroll
  for (int j = 0; j < N_TILES; j++) {
    if (!IS_WHOLE && out_column(j, 0) >= HEAD_DIM) continue;
    const float first = sums[j][2 * half] * factor, second = sums[j][2 * half + 1] * factor;
    if constexpr (isKvE4m3) {
      to[out_column(j, 0)] = float_to_bf16(first);
      to[out_column(j, 1)] = float_to_bf16(second);
    } else {
      *reinterpret_cast<u32*>(to + out_column(j, 0)) = pack_bf16(first, second);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) ragged_prefill(
    const u16* q,              // rows of qRowWidth, the queries first
    const kv_t* keys,          // [numBlocks, BLOCK_SIZE, numKvHeads, HEAD_DIM]
    const kv_t* values,        // likewise
    const int* queryStarts,    // [numSequences + 1]: rows of q and out
    const int* contextLengths, // [numSequences], the queries included
    const int* blockTables,    // [numSequences, maxBlocks]
    u16* out,                  // [numTokens, numHeads * HEAD_DIM]
    const float* sinks,        // [numHeads]
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  const int warp = threadIdx.x >> 5, g = (threadIdx.x & 31) >> 2;
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
  const Visibility visible = {past + warpQuery, past + warpQuery + numRows - 1, window};
  Queries queries;
  load_queries(queries, q + (i64)(queryStart + warpQuery) * qRowWidth + head * HEAD_DIM, qRowWidth, numRows);

  const TileReader reader = {reinterpret_cast<const u8*>(keys), reinterpret_cast<const u8*>(values),
                             blockTables + (u64)sequence * maxBlocks, numKvHeads * HEAD_DIM * (int)sizeof(kv_t),
                             (u64)kvHead * HEAD_DIM * sizeof(kv_t), firstKey, contextLength, endTile};
  reader.copy(startTile, 0);
  Output sums = {};
  OnlineSoftmax softmax;
  const float toLog2 = log2_factor(scale, softCap), toCapped = scale / softCap;
  for (int tile = startTile; tile < endTile; tile++) {
    const int stage = (tile - startTile) % STAGES;
    cp_async_wait<0>();
    // All warps have the tile, and none still reads the one before it.
    __syncthreads();
    reader.copy(tile + 1, stage ^ 1);
    if (numRows > 0 && visible.sees(tile * KEYS))
      attend(shared + stage * STAGE_BYTES, queries, visible, tile * KEYS, toLog2, toCapped, softmax, sums);
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float total = softmax.total(half);
    const int row = half * 8 + g;
    if (row >= numRows) continue;
    if constexpr (IS_SET(HAS_SINKS))
      if (total > 0.f) total += sink_weight(sinks, head, softmax.largest[half] * toLog2);
    // A padded row has a context of no keys.
    const float factor = total > 0.f ? valueScale / total : 0.f;
    store_row(out + ((i64)(queryStart + warpQuery + row) * numHeads + head) * HEAD_DIM, sums, half, factor);
  }
}
