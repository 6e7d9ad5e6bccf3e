// Causal prefill attention by WGMMA (sm_90a only): about twice the speed of ragged-prefill.cu, with the same contract.
// A block takes 128 queries of one head, a warp group 64 of them, and walks their keys, 128 at a time. The next keys
// and values are copied while a warp group computes its scores. FP8 keys and values become f16 in the meantime; each
// thread converts the bytes that it copied.
// Operands lie in shared memory in the 128-byte swizzle: lines of 128 bytes, groups of eight lines 1024 bytes apart,
// 16-byte pieces XORed with the line number. Rows of 128 elements are two such halves.
// Roofline: FLOP, 4 * HEAD_DIM for each pair of query and visible key, of each head: 2 * 128 * 128 * 4 a tile of keys and
// values of 64 KiB.
// Options: HEAD_DIM (128), BLOCK_SIZE (a multiple of 16), KV_E4M3, ROW_HALVES 2.
// Source: FlashAttention-3 (Shah et al. 2024), PagedAttention (Kwon et al. 2023), online softmax (Milakov and
// Gimelshein 2018); PTX ISA, wgmma.mma_async and its matrix descriptor.
#include "attention-tile.cuh"
#include "wgmma.cuh"

#define THREADS 256
#define QUERIES 128
#define KEYS 128
#define HALF_BYTES (KEYS * 128)
#define ROWS_BYTES (2 * HALF_BYTES)
#define PIECES (HEAD_DIM * (int)sizeof(kv_t) / 16)
#define COPIES (KEYS * PIECES / THREADS)
#define RAW_BYTES (COPIES * THREADS * 16)

extern __shared__ __align__(16) u8 shared[];

constexpr WgmmaType operandType = isKvE4m3 ? WgmmaType::f16 : WgmmaType::bf16;

// Makes generic-proxy stores visible to WGMMA (PTX ISA, fence.proxy.async).
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Byte offset of 16-byte piece `piece` of a row in the 128-byte swizzle.
__device__ __forceinline__ u32 piece_place(int row, int piece) {
  return (piece >> 3) * HALF_BYTES + row * 128 + (((piece & 7) ^ (row & 7)) << 4);
}

// Eight bf16 as the type of the operands.
__device__ __forceinline__ uint4 as_operands(uint4 four) {
  if constexpr (!isKvE4m3) return four;
  return make_uint4(pack_f16(bf16_low(four.x), bf16_high(four.x)), pack_f16(bf16_low(four.y), bf16_high(four.y)),
                    pack_f16(bf16_low(four.z), bf16_high(four.z)), pack_f16(bf16_low(four.w), bf16_high(four.w)));
}

// Copies the block's queries, zeros after the last.
__device__ __forceinline__ void load_queries(u8* to, const u16* q, int rowStride, int numRows) {
  for (int c = threadIdx.x; c < QUERIES * 16; c += THREADS) {
    const int row = c >> 4, piece = c & 15;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (row < numRows) eight = *reinterpret_cast<const uint4*>(q + (i64)row * rowStride + piece * 8);
    *reinterpret_cast<uint4*>(to + piece_place(row, piece)) = as_operands(eight);
  }
}

// Copies tiles of keys and their values to one of two stages. bf16 is copied to its final place, FP8 to a staging place
// of the thread, which converts it.
struct TileReader {
  const u8 *keys, *values;
  const int* table;
  int rowBytes;
  u64 headOffset;
  int contextLength, endTile;
  u8* base; // of shared memory: queries, two stages of keys and values, FP8 codes
  u32 baseAt;

  __device__ __forceinline__ static u32 stage_offset(int stage) { return ROWS_BYTES + stage * 2 * ROWS_BYTES; }
  __device__ __forceinline__ u32 keys_at(int stage) const { return baseAt + stage_offset(stage); }
  __device__ __forceinline__ static u32 raw_offset() { return ROWS_BYTES + 4 * ROWS_BYTES; }

  __device__ __forceinline__ void fetch(int tile, int stage) const {
    if (tile < endTile) {
#pragma unroll
      for (int n = 0; n < COPIES; n++) {
        const int c = threadIdx.x + n * THREADS, row = c / PIECES, piece = c % PIECES, key = tile * KEYS + row;
        // Slots after the last key were never written.
        const bool isKey = key < contextLength;
        const int block = isKey ? table[key / BLOCK_SIZE] : 0;
        const u64 from = ((u64)block * BLOCK_SIZE + key % BLOCK_SIZE) * rowBytes + headOffset + piece * 16;
        const u32 to = isKvE4m3 ? baseAt + raw_offset() + c * 16 : keys_at(stage) + piece_place(row, piece);
        const u32 apart = isKvE4m3 ? RAW_BYTES : ROWS_BYTES;
        cp_async(to, keys + from, isKey);
        cp_async(to + apart, values + from, isKey);
      }
    }
    cp_async_commit();
  }

  __device__ __forceinline__ void convert(int stage) const {
    cp_async_wait<0>();
    u8* to = base + stage_offset(stage);
    const u8* raw = base + raw_offset();
#pragma unroll
    for (int n = 0; n < 2 * COPIES; n++) {
      const int c = threadIdx.x + (n % COPIES) * THREADS, row = c / PIECES, piece = 2 * (c % PIECES);
      const uint4 codes = *reinterpret_cast<const uint4*>(raw + (n / COPIES) * RAW_BYTES + c * 16);
      const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
      u32 pairs[8];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        pairs[2 * i] = e4m3x2_to_f16x2((u16)words[i]);
        pairs[2 * i + 1] = e4m3x2_to_f16x2((u16)(words[i] >> 16));
      }
      u8* rows = to + (n / COPIES) * ROWS_BYTES;
      *reinterpret_cast<uint4*>(rows + piece_place(row, piece)) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      *reinterpret_cast<uint4*>(rows + piece_place(row, piece + 1)) = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
    }
  }
};

// Starts the WGMMAs of a warp group's queries with a tile of keys.
__device__ __forceinline__ void start_scores(float (&scores)[64], u32 queries, u32 keys) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 8; k++) {
    const u32 at = (k >> 2) * HALF_BYTES + (k & 3) * 32;
    wgmma_shared_shared<operandType>(scores, shared_descriptor(queries + at), shared_descriptor(keys + at), k > 0);
  }
  wgmma_commit();
}

// Hides keys after the queries, of which the warp has 16 from `firstPosition` on.
__device__ __forceinline__ void mask_future(float (&scores)[64], int firstKey, int firstPosition) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < 64; i++) {
    const int key = firstKey + 8 * (i >> 2) + 2 * t + (i & 1);
    const int position = firstPosition + g + 8 * (i >> 1 & 1);
    scores[i] = key <= position ? scores[i] : MINUS_INFINITY;
  }
}

// Adds the values of a tile, weighted.
__device__ __forceinline__ void add_values(float (&sums)[64], const float (&scores)[64], const float (&factors)[2],
                                           u32 values) {
  u32 weights[8][4];
#pragma unroll
  for (int s = 0; s < 8; s++)
#pragma unroll
    for (int i = 0; i < 4; i++) weights[s][i] = pack_operand(scores[8 * s + 2 * i], scores[8 * s + 2 * i + 1]);
#pragma unroll
  for (int i = 0; i < 64; i++) sums[i] *= factors[i >> 1 & 1];
  wgmma_fence();
#pragma unroll
  for (int s = 0; s < 8; s++)
    wgmma_register_transposed<operandType>(sums, weights[s], shared_descriptor(values + s * 2048, HALF_BYTES));
  wgmma_commit();
  wgmma_wait<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_prefill(
    const u16* q,              // rows of qRowWidth, the queries first
    const kv_t* keys,          // [numBlocks, BLOCK_SIZE, numKvHeads, HEAD_DIM]
    const kv_t* values,        // likewise
    const int* queryStarts,    // [numSequences + 1]: rows of q and out
    const int* contextLengths, // [numSequences], the queries included
    const int* blockTables,    // [numSequences, maxBlocks]
    u16* out,                  // [numTokens, numHeads * HEAD_DIM]
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warpGroup = threadIdx.x >> 7, g = lane >> 2, t = lane & 3;
  const int sequence = blockIdx.z, head = blockIdx.x, kvHead = head / (numHeads / numKvHeads);
  PDL_TRIGGER();
  PDL_WAIT();
  const int queryStart = queryStarts[sequence], numQueries = queryStarts[sequence + 1] - queryStart;
  const int contextLength = contextLengths[sequence], past = contextLength - numQueries;
  // The last queries see most keys: their blocks start first.
  const int numBlocks = CEIL_DIV(numQueries, QUERIES);
  if ((int)blockIdx.y >= numBlocks) return;
  const int firstQuery = (numBlocks - 1 - (int)blockIdx.y) * QUERIES;
  const int endTile = CEIL_DIV(past + min(firstQuery + QUERIES, numQueries), KEYS);

  u8* base = shared + swizzle_padding(shared_address(shared));
  load_queries(base, q + (i64)(queryStart + firstQuery) * qRowWidth + head * HEAD_DIM, qRowWidth, numQueries - firstQuery);
  const TileReader reader = {reinterpret_cast<const u8*>(keys), reinterpret_cast<const u8*>(values),
                             blockTables + (u64)sequence * maxBlocks, numKvHeads * HEAD_DIM * (int)sizeof(kv_t),
                             (u64)kvHead * HEAD_DIM * sizeof(kv_t), contextLength, endTile, base, shared_address(base)};
  reader.fetch(0, 0);
  if constexpr (isKvE4m3) {
    reader.convert(0);
    reader.fetch(1, 1);
  }
  const int groupQuery = firstQuery + warpGroup * 64, warpQuery = firstQuery + warp * 16;
  const int groupFirst = past + groupQuery, groupLast = past + min(groupQuery + 64, numQueries) - 1; // positions
  const u32 groupQueries = reader.baseAt + warpGroup * 64 * 128;
  float sums[64] = {};
  OnlineSoftmax softmax;
  const float toLog2 = scale * LOG2_E;
  for (int tile = 0; tile < endTile; tile++) {
    const int stage = tile & 1;
    if constexpr (!isKvE4m3) cp_async_wait<0>();
    fence_proxy_async();
    // All threads have brought the tile, and no group still reads the one before it.
    __syncthreads();
    if constexpr (!isKvE4m3) reader.fetch(tile + 1, stage ^ 1);
    const bool isSeen = tile * KEYS <= groupLast && groupQuery < numQueries;
    float scores[64];
    if (isSeen) start_scores(scores, groupQueries, reader.keys_at(stage));
    if constexpr (isKvE4m3) {
      if (tile + 1 < endTile) reader.convert(stage ^ 1);
      reader.fetch(tile + 2, stage);
    }
    if (!isSeen) continue;
    wgmma_wait<0>();
    if (tile * KEYS + KEYS > groupFirst + 1) mask_future(scores, tile * KEYS, past + warpQuery);
    const float factors[2] = {softmax.update<false>(scores, 0, toLog2), softmax.update<false>(scores, 1, toLog2)};
    add_values(sums, scores, factors, reader.keys_at(stage) + ROWS_BYTES);
  }
  cp_async_wait<0>();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const float total = softmax.total(half);
    const int row = warpQuery + g + 8 * half;
    if (row >= numQueries) continue;
    const float factor = valueScale / total;
    u16* to = out + ((i64)(queryStart + row) * numHeads + head) * HEAD_DIM;
#pragma unroll
    for (int j = 0; j < 16; j++)
      *reinterpret_cast<u32*>(to + 8 * j + 2 * t) =
          pack_bf16(sums[4 * j + 2 * half] * factor, sums[4 * j + 2 * half + 1] * factor);
  }
}
