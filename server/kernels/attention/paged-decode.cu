// Decode attention: one query per sequence, q [numSequences, numHeads, HEAD_DIM], over the paged KV cache, on tensor
// cores. A block takes one KV head of one sequence, up to 16 of its query heads (GQA), and one split of the keys. Its
// warps take tiles of 16 keys in turn, with cp.async copies in flight, and reduce at the end. The last block of a head
// to finish merges the splits.
// Roofline: bytes. A launch reads each cached key and value once, 2 * contextLength * numKvHeads * HEAD_DIM elements a
// sequence, for 4 * numHeads / numKvHeads FLOP an element and 2 bytes: 8 FLOP a byte with Llama-3.1-8B.
// Source: PagedAttention (Kwon et al. 2023), FlashAttention-2 (Dao 2023) with keys split over blocks, online softmax
// (Milakov and Gimelshein 2018), GQA (Ainslie et al. 2023); PTX ISA, mma.sync and cp.async.
// Options: HEAD_DIM, BLOCK_SIZE (a multiple of 16), WARPS, STAGES, ROW_HALVES (1: at most 8 heads a block), KV_E4M3,
// KV_F16, SOFT_CAP, HAS_SINKS.
// ROPE: q holds rows of [queries | keys | values] before RoPE (Su et al. 2021). The block that has the last key rotates
// it and stores it with its value.
#include "attention-tile.cuh"
#include "last-block.cuh"

#define ROWS (8 * ROW_HALVES)
#define THREADS (WARPS * WARP)
// Fewer would cost more to join than to read.
#define MIN_SPLIT_TILES 16
#define STAGE_BYTES (2 * TILE_BYTES)
#define OUT_STRIDE (WIDTH + 8)

constexpr bool hasRope = IS_SET(ROPE), hasSinks = IS_SET(HAS_SINKS);

extern __shared__ __align__(16) u8 shared[];

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

// Fetches tiles of keys and their values, each warp to stages of its own.
struct TileReader {
  const u8 *keys, *values;
  const int* table;
  u8* stages;
  int rowBytes;
  u64 headOffset;
  int endTile, numStored;

  __device__ __forceinline__ int block_of(int tile) const { return tile < endTile ? table[tile * TILE / BLOCK_SIZE] : 0; }

  // Byte offset of a row of this head, from a block and the place in it on.
  __device__ __forceinline__ u64 offset_of(int block, int place) const {
    return ((u64)block * BLOCK_SIZE + place) * rowBytes + headOffset;
  }

  __device__ __forceinline__ void fetch(int tile, int block, int stage) const {
    if (tile < endTile) {
      const int key = tile * TILE;
      const u64 start = offset_of(block, key % BLOCK_SIZE);
      const u32 to = shared_address(stages + stage * STAGE_BYTES);
#pragma unroll
      for (int c = threadIdx.x & 31; c < TILE * CHUNKS; c += WARP) {
        const int row = c / CHUNKS, column = (c % CHUNKS) * 16;
        // Slots after the last key were never written.
        const bool isKey = key + row < numStored;
        const u64 from = start + (u64)row * rowBytes;
        copy_chunk(to + row * ROW_STRIDE, keys + from, column, isKey);
        copy_chunk(to + TILE_BYTES + row * ROW_STRIDE, values + from, column, isKey);
      }
    }
  }
};

// The last key and its value, which come before RoPE with the query.
struct LastRow {
  float2* rotations; // shared [HEAD_DIM / 2]
  kv_t* rows;        // shared [2 * HEAD_DIM]: key and value

  __device__ __forceinline__ void set_angles(const float* invFreq, int position, float magnitude) const {
    for (int i = threadIdx.x; i < HEAD_DIM / 2; i += THREADS) {
      float sine, cosine;
      sincosf((float)position * invFreq[i], &sine, &cosine);
      rotations[i] = make_float2(cosine * magnitude, sine * magnitude);
    }
    __syncthreads();
  }

  // Two numbers as the cache has them, here and there.
  __device__ __forceinline__ static void keep_two(kv_t* here, kv_t* there, int at, float2 two, float inverseScale) {
    store_kv_two(here + at, two, inverseScale);
    store_kv_two(there + at, two, inverseScale);
  }

  // `key`: of this head, before RoPE; its value is numKvHeads rows further.
  __device__ __forceinline__ void store(const TileReader& reader, const u16* key, int numKvHeads, int position, kv_t* keys,
                                        kv_t* values, float inverseKeyScale, float inverseValueScale) const {
    const u64 to = reader.offset_of(reader.table[position / BLOCK_SIZE], position % BLOCK_SIZE);
    kv_t* keyTo = reinterpret_cast<kv_t*>(reinterpret_cast<u8*>(keys) + to);
    kv_t* valueTo = reinterpret_cast<kv_t*>(reinterpret_cast<u8*>(values) + to);
    const u16* value = key + numKvHeads * HEAD_DIM;
    for (int i = 2 * threadIdx.x; i < HEAD_DIM / 2; i += 2 * THREADS) {
      float2 low, high;
      rotate_pairs(*reinterpret_cast<const u32*>(key + i), *reinterpret_cast<const u32*>(key + HEAD_DIM / 2 + i),
                   rotations + i, low, high);
      keep_two(rows, keyTo, i, low, inverseKeyScale);
      keep_two(rows, keyTo, HEAD_DIM / 2 + i, high, inverseKeyScale);
    }
    for (int i = 2 * threadIdx.x; i < HEAD_DIM; i += 2 * THREADS) {
      const u32 pair = *reinterpret_cast<const u32*>(value + i);
      keep_two(rows + HEAD_DIM, valueTo, i, make_float2(bf16_low(pair), bf16_high(pair)), inverseValueScale);
    }
    __syncthreads();
  }

  // Puts both into a stage that a warp has, as row `row` of its tile.
  __device__ __forceinline__ void put(u8* stage, int row) const {
    for (int c = threadIdx.x & 31; c < 2 * CHUNKS; c += WARP) {
      const u32 to = (c / CHUNKS) * TILE_BYTES + row * ROW_STRIDE + (c % CHUNKS) * 16;
      *reinterpret_cast<uint4*>(stage + to) = reinterpret_cast<const uint4*>(rows)[c];
    }
    __syncwarp();
  }
};

// One tile: scores, their weights, and the values times these.
__device__ __forceinline__ void attend_tile(const u8* at, const Queries& queries, const Span& span, int tile, float toLog2,
                                            float toCapped, OnlineSoftmax& softmax, Output& sums) {
  float scores[2][4] = {};
  float(&flat)[8] = reinterpret_cast<float(&)[8]>(scores);
  score_tile<true>(scores, queries, at);
  cap_scores(flat, toCapped);
  // Apart from the rest, for most tiles have no edge.
  if (tile * TILE < span.first || tile * TILE + TILE > span.length) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int key = tile * TILE + (i >> 2) * 8 + 2 * (threadIdx.x & 3) + (i & 1);
      float& score = scores[i >> 2][i & 3];
      score = key >= span.first && key < span.length ? score : MINUS_INFINITY;
    }
  }
  float factors[2] = {1.f, 1.f};
#pragma unroll
  for (int half = 0; half < ROW_HALVES; half++) factors[half] = softmax.update<false>(flat, half, toLog2);
  if (__any_sync(FULL_MASK, factors[0] != 1.f || factors[1] != 1.f)) {
#pragma unroll
    for (int j = 0; j < N_TILES; j++)
#pragma unroll
      for (int half = 0; half < ROW_HALVES; half++)
#pragma unroll
        for (int e = 0; e < 2; e++) sums[j][2 * half + e] *= factors[half];
  }
  u32 weights[4] = {pack_operand(scores[0][0], scores[0][1]), 0, pack_operand(scores[1][0], scores[1][1]), 0};
  if (ROW_HALVES == 2) {
    weights[1] = pack_operand(scores[0][2], scores[0][3]);
    weights[3] = pack_operand(scores[1][2], scores[1][3]);
  }
  add_values(sums, weights, at + TILE_BYTES);
}

// The tiles of a warp from `tile` on. `late`: requested after all others, -1 if none; `stored`: with the key of this step,
// or -1.
__device__ __forceinline__ void walk_tiles(const TileReader& reader, const LastRow& last, const Span& span, int tile, int late,
                                           int stored, int aheadBlock, const Queries& queries, float toLog2, float toCapped,
                                           OnlineSoftmax& softmax, Output& sums) {
  int ahead = tile + (STAGES - 1) * WARPS, stage = 0, aheadStage = STAGES - 1;
  for (; tile < span.endTile; tile += WARPS) {
    // No request follows the late one.
    if (tile == late) {
      cp_async_commit();
      cp_async_wait<0>();
    } else {
      cp_async_wait<STAGES - 2>();
    }
    __syncwarp();
    reader.fetch(ahead, aheadBlock, aheadStage);
    cp_async_commit();
    ahead += WARPS;
    aheadBlock = reader.block_of(ahead);
    aheadStage = aheadStage + 1 == STAGES ? 0 : aheadStage + 1;

    u8* at = reader.stages + stage * STAGE_BYTES;
    if (hasRope && tile == stored) last.put(at, (span.length - 1) % TILE);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    attend_tile(at, queries, span, tile, toLog2, toCapped, softmax, sums);
  }
}

// A weighted sum of values with the largest score and the sum of its weights.
struct Part {
  float best = MINUS_INFINITY, sum = 0.f, total = 0.f;

  __device__ __forceinline__ void add(float largest, float weights, float values) {
    const float factor = exp2_fast(largest - best);
    sum += factor * values;
    total += factor * weights;
  }

  __device__ __forceinline__ float mean(const float* sinks, int head) const {
    return sum / (hasSinks ? total + sink_weight(sinks, head, best) : total);
  }
};

// The warps' results in the memory of the tiles.
struct WarpResults {
  float* sums;  // [WARPS, ROWS, OUT_STRIDE]
  float* stats; // [WARPS, ROWS, 2]: largest score, sum of weights

  __device__ __forceinline__ WarpResults(u8* at)
      : sums(reinterpret_cast<float*>(at)), stats(sums + WARPS * ROWS * OUT_STRIDE) {}

  __device__ __forceinline__ void stage(const OnlineSoftmax& softmax, const Output& ofWarp, float toLog2) const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int half = 0; half < ROW_HALVES; half++) {
      const float total = softmax.total(half);
      const int row = warp * ROWS + half * 8 + (lane >> 2);
      if ((lane & 3) == 0) {
        stats[2 * row] = softmax.largest[half] * toLog2;
        stats[2 * row + 1] = total;
      }
#pragma unroll
      for (int j = 0; j < N_TILES; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) sums[row * OUT_STRIDE + out_column(j, e)] = ofWarp[j][2 * half + e];
    }
  }

  __device__ __forceinline__ Part merge(int row, int column) const {
    Part part;
#pragma unroll
    for (int w = 0; w < WARPS; w++) part.best = fmaxf(part.best, stats[2 * (w * ROWS + row)]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      const int at = w * ROWS + row;
      part.add(stats[2 * at], stats[2 * at + 1], sums[at * OUT_STRIDE + column]);
    }
    return part;
  }
};

// Column `column` of a row over all splits; `sums` and `stats` of its first.
__device__ __forceinline__ Part merge_splits(const float* sums, const float2* stats, int numSplits, int column) {
  Part part;
#pragma unroll 4
  for (int s = 0; s < numSplits; s++) part.best = fmaxf(part.best, __ldcg(stats + s).x);
#pragma unroll 4
  for (int s = 0; s < numSplits; s++) {
    const float2 stat = __ldcg(stats + s);
    part.add(stat.x, stat.y, __ldcg(sums + s * HEAD_DIM + column));
  }
  return part;
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
    const float* sinks,        // [numHeads]
    float magnitude, float inverseKeyScale, float inverseValueScale,
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  const int warp = threadIdx.x >> 5;
  const int sequence = blockIdx.z, kvHead = blockIdx.y % numKvHeads, chunkOfHeads = blockIdx.y / numKvHeads;
  const int group = numHeads / numKvHeads, firstOfGroup = chunkOfHeads * ROWS;
  const int headStart = kvHead * group + firstOfGroup, numRows = min(ROWS, group - firstOfGroup);
  PDL_TRIGGER();
  // Lengths and tables came with the step: no kernel writes them.
  const int length = contextLengths[sequence];
  const Span span = split_of(length, window);
  if (blockIdx.x > 0 && (int)blockIdx.x >= span.numSplits) return;
  const int tile = span.startTile + warp; // the first of this warp
  const int lastTile = (length - 1) / TILE;
  const bool hasLast = hasRope && length > 0 && lastTile >= span.startTile && lastTile < span.endTile;
  // A key that this block stores is not read from where it goes.
  const TileReader reader = {reinterpret_cast<const u8*>(keys), reinterpret_cast<const u8*>(values),
                             blockTables + (u64)sequence * maxBlocks, shared + warp * STAGES * STAGE_BYTES,
                             numKvHeads * HEAD_DIM * (int)sizeof(kv_t), (u64)kvHead * HEAD_DIM * sizeof(kv_t),
                             span.endTile, length - (hasLast ? 1 : 0)};
  int firstBlocks[STAGES];
#pragma unroll
  for (int s = 0; s < STAGES; s++) firstBlocks[s] = reader.block_of(tile + s * WARPS);
  __shared__ float2 rotations[HEAD_DIM / 2];
  __shared__ __align__(16) kv_t lastRows[2 * HEAD_DIM];
  const LastRow last = {rotations, lastRows};
  if constexpr (hasRope) last.set_angles(invFreq, length - 1, magnitude);

  // All but the last key was written in steps before this one.
  const int lateTile = hasRope ? -1 : lastTile;
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (tile + s * WARPS != lateTile) reader.fetch(tile + s * WARPS, firstBlocks[s], s);
    cp_async_commit();
  }
  PDL_WAIT();
  const u64 outStart = ((u64)sequence * numHeads + headStart) * HEAD_DIM;
  if (length <= 0) {
    if (blockIdx.x == 0)
      for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) out[outStart + i] = 0;
    return;
  }

  Queries queries;
  const u16* row = q + (u64)sequence * qRowWidth;
  if constexpr (hasRope) {
    load_rotated_queries(queries, row + headStart * HEAD_DIM, HEAD_DIM, numRows, rotations);
    if (hasLast) last.store(reader, row + (numHeads + kvHead) * HEAD_DIM, numKvHeads, length - 1, keys, values,
                            inverseKeyScale, inverseValueScale);
  } else {
    load_queries(queries, row + headStart * HEAD_DIM, HEAD_DIM, numRows);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
      if (tile + s * WARPS == lateTile) reader.fetch(lateTile, firstBlocks[s], s);
  }
  Output sums = {};
  OnlineSoftmax softmax;
  const float toLog2 = log2_factor(scale, softCap), toCapped = scale / softCap;
  walk_tiles(reader, last, span, tile, lateTile, hasLast ? lastTile : -1, firstBlocks[STAGES - 1], queries, toLog2,
             toCapped, softmax, sums);
  cp_async_wait<0>();
  __syncthreads();

  const WarpResults results(shared);
  results.stage(softmax, sums, toLog2);
  __syncthreads();
  for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) {
    const int row = i / HEAD_DIM, column = i % HEAD_DIM;
    const Part part = results.merge(row, column);
    if (span.numSplits == 1) {
      out[outStart + i] = float_to_bf16(part.mean(sinks, headStart + row) * valueScale);
      continue;
    }
    const u64 at = ((u64)sequence * numHeads + headStart + row) * gridDim.x + blockIdx.x;
    partials[at * HEAD_DIM + column] = part.sum;
    if (column == 0) *reinterpret_cast<float2*>(partialStats + 2 * at) = make_float2(part.best, part.total);
  }
  if (span.numSplits == 1) return;

  __shared__ bool isLast;
  if (!is_last_block(counters + sequence * gridDim.y + blockIdx.y, span.numSplits, isLast)) return;
  for (int i = threadIdx.x; i < numRows * HEAD_DIM; i += THREADS) {
    const int row = i / HEAD_DIM, column = i % HEAD_DIM;
    const u64 start = ((u64)sequence * numHeads + headStart + row) * gridDim.x;
    const float2* stats = reinterpret_cast<const float2*>(partialStats) + start;
    const Part part = merge_splits(partials + start * HEAD_DIM, stats, span.numSplits, column);
    out[outStart + i] = float_to_bf16(part.mean(sinks, headStart + row) * valueScale);
  }
}
