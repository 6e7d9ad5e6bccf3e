// Causal prefill attention by WGMMA (sm_90a only): about twice the speed of ragged-prefill.cu, with the same contract.
// A block takes 128 queries of one head, a warp group 64 of them, and walks their keys, 128 at a time. The next keys
// and values are copied while a warp group computes its scores. FP8 keys and values become f16 in the meantime; each
// thread converts the bytes that it copied. Bound by FLOP.
// Operands lie in shared memory in the 128-byte swizzle: lines of 128 bytes, groups of eight lines 1024 bytes apart,
// 16-byte pieces XORed with the line number. Rows of 128 elements are two such halves.
// Options: HEAD_DIM (128), BLOCK_SIZE (a multiple of 16), KV_E4M3, ROW_HALVES 2.
// Source: FlashAttention-3 (Shah et al. 2024), PagedAttention (Kwon et al. 2023), online softmax (Milakov and
// Gimelshein 2018); PTX ISA, wgmma.mma_async and its matrix descriptor.
#include "attention-tile.cuh"

#define THREADS 256
#define QUERIES 128
#define KEYS 128
#define HALF_BYTES (KEYS * 128)
#define ROWS_BYTES (2 * HALF_BYTES)
#define PIECES (HEAD_DIM * (int)sizeof(kv_t) / 16)
#define COPIES (KEYS * PIECES / THREADS)
#define RAW_BYTES (COPIES * THREADS * 16)

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern __shared__ __align__(16) u8 shared[];

#if defined(KV_E4M3)
#define PRODUCT_TYPES "f32.f16.f16"
#else
#define PRODUCT_TYPES "f32.bf16.bf16"
#endif

__device__ __forceinline__ u64 describe(u32 address, u32 leading, u32 stride) {
  return (u64)((address & 0x3ffffu) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Makes generic-proxy stores visible to WGMMA (PTX ISA, fence.proxy.async).
__device__ __forceinline__ void show_to_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// d = a . b^T (+ d): 64 rows by 128, 16 numbers deep; both described in shared memory, each row along its numbers.
__device__ __forceinline__ void multiply_rows(float (&d)[64], u64 a, u64 b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16." PRODUCT_TYPES
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(adds));
}

// d += a . b: the left side in registers, the right one described as rows of 128 numbers, 16 of them.
__device__ __forceinline__ void multiply_columns(float (&d)[64], const u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16." PRODUCT_TYPES
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Byte offset of 16-byte piece `piece` of a row in the 128-byte swizzle.
__device__ __forceinline__ u32 piece_place(int row, int piece) {
  return (piece >> 3) * HALF_BYTES + row * 128 + (((piece & 7) ^ (row & 7)) << 4);
}
#endif

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
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
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

  // Lines repeat their pattern every 1024 bytes.
  u8* base = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  const u32 queriesAt = shared_address(base), stagesAt = queriesAt + ROWS_BYTES;
  // A stage: keys, values.
  const auto keys_at = [&](int stage) { return stagesAt + stage * 2 * ROWS_BYTES; };

  for (int c = threadIdx.x; c < QUERIES * 16; c += THREADS) {
    const int row = c >> 4, piece = c & 15;
    uint4 four = make_uint4(0, 0, 0, 0);
    if (firstQuery + row < numQueries)
      four = *reinterpret_cast<const uint4*>(q + (i64)(queryStart + firstQuery + row) * qRowWidth + head * HEAD_DIM + piece * 8);
#if defined(KV_E4M3)
    four = make_uint4(pack_f16(bf16_low(four.x), bf16_high(four.x)), pack_f16(bf16_low(four.y), bf16_high(four.y)),
                      pack_f16(bf16_low(four.z), bf16_high(four.z)), pack_f16(bf16_low(four.w), bf16_high(four.w)));
#endif
    *reinterpret_cast<uint4*>(base + piece_place(row, piece)) = four;
  }

  const int* table = blockTables + (u64)sequence * maxBlocks;
  const int rowBytes = numKvHeads * HEAD_DIM * (int)sizeof(kv_t);
  const u64 headOffset = (u64)kvHead * HEAD_DIM * sizeof(kv_t);
  const u32 rawAt = stagesAt + 4 * ROWS_BYTES;
  // bf16 is copied to its final place, FP8 to a staging place of the thread.
  const auto fetch = [&](int tile, int stage) {
    if (tile < endTile) {
#pragma unroll
      for (int n = 0; n < COPIES; n++) {
        const int c = threadIdx.x + n * THREADS, row = c / PIECES, piece = c % PIECES, key = tile * KEYS + row;
        // Slots after the last key were never written.
        const bool isKey = key < contextLength;
        const int block = isKey ? table[key / BLOCK_SIZE] : 0;
        const u64 from = ((u64)block * BLOCK_SIZE + key % BLOCK_SIZE) * rowBytes + headOffset + piece * 16;
#if defined(KV_E4M3)
        const u32 to = rawAt + c * 16, apart = RAW_BYTES;
#else
        const u32 to = keys_at(stage) + piece_place(row, piece), apart = ROWS_BYTES;
#endif
        cp_async(to, reinterpret_cast<const u8*>(keys) + from, isKey);
        cp_async(to + apart, reinterpret_cast<const u8*>(values) + from, isKey);
      }
    }
    cp_async_commit();
  };
#if defined(KV_E4M3)
  const auto convert = [&](int stage) {
    cp_async_wait<0>();
    u8* to = base + (keys_at(stage) - queriesAt);
    const u8* raw = base + (rawAt - queriesAt);
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
  };
#endif

  fetch(0, 0);
#if defined(KV_E4M3)
  convert(0);
  fetch(1, 1);
#endif
  const int groupQuery = firstQuery + warpGroup * 64, warpQuery = firstQuery + warp * 16;
  const int groupFirst = past + groupQuery, groupLast = past + min(groupQuery + 64, numQueries) - 1; // positions
  const u32 groupQueriesAt = queriesAt + warpGroup * 64 * 128;
  float sums[64];
#pragma unroll
  for (int i = 0; i < 64; i++) sums[i] = 0.f;
  float largest[2] = {MINUS_INFINITY, MINUS_INFINITY}, totals[2] = {0.f, 0.f};
  const float toLog2 = scale * LOG2_E;
  for (int tile = 0; tile < endTile; tile++) {
    const int stage = tile & 1;
#if !defined(KV_E4M3)
    cp_async_wait<0>();
#endif
    show_to_units();
    // All threads have brought the tile, and no group still reads the one before it.
    __syncthreads();
#if !defined(KV_E4M3)
    fetch(tile + 1, stage ^ 1);
#endif
    const bool isSeen = tile * KEYS <= groupLast && groupQuery < numQueries;
    float scores[64];
    if (isSeen) {
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 8; k++) {
        const u32 at = (k >> 2) * HALF_BYTES + (k & 3) * 32;
        multiply_rows(scores, describe(groupQueriesAt + at, 16, 1024), describe(keys_at(stage) + at, 16, 1024), k > 0);
      }
      wgmma_commit();
    }
#if defined(KV_E4M3)
    if (tile + 1 < endTile) convert(stage ^ 1);
    fetch(tile + 2, stage);
#endif
    if (!isSeen) continue;
    wgmma_wait();
    if (tile * KEYS + KEYS > groupFirst + 1) {
#pragma unroll
      for (int i = 0; i < 64; i++) {
        const int key = tile * KEYS + 8 * (i >> 2) + 2 * t + (i & 1);
        const int position = past + warpQuery + g + 8 * (i >> 1 & 1);
        scores[i] = key <= position ? scores[i] : MINUS_INFINITY;
      }
    }
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float best = largest[half];
#pragma unroll
      for (int j = 0; j < 16; j++) best = fmaxf(best, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 1));
      best = fmaxf(best, __shfl_xor_sync(FULL_MASK, best, 2));
      const float base = best * toLog2;
      factors[half] = exp2_fast(largest[half] * toLog2 - base);
      largest[half] = best;
      float total = 0.f;
#pragma unroll
      for (int j = 0; j < 16; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float& score = scores[4 * j + 2 * half + e];
          score = exp2_fast(fmaf(score, toLog2, -base));
          total += score;
        }
      totals[half] = totals[half] * factors[half] + total;
    }
    u32 weights[8][4];
#pragma unroll
    for (int s = 0; s < 8; s++)
#pragma unroll
      for (int i = 0; i < 4; i++) weights[s][i] = PACK(scores[8 * s + 2 * i], scores[8 * s + 2 * i + 1]);
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i] *= factors[i >> 1 & 1];
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 8; s++)
      multiply_columns(sums, weights[s], describe(keys_at(stage) + ROWS_BYTES + s * 2048, HALF_BYTES, 1024));
    wgmma_commit();
    wgmma_wait();
  }
  cp_async_wait<0>();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float total = totals[half];
    total += __shfl_xor_sync(FULL_MASK, total, 1);
    total += __shfl_xor_sync(FULL_MASK, total, 2);
    const int row = warpQuery + g + 8 * half;
    if (row >= numQueries) continue;
    const float factor = valueScale / total;
    u16* to = out + ((i64)(queryStart + row) * numHeads + head) * HEAD_DIM;
#pragma unroll
    for (int j = 0; j < 16; j++)
      *reinterpret_cast<u32*>(to + 8 * j + 2 * t) = pack_bf16(sums[4 * j + 2 * half] * factor, sums[4 * j + 2 * half + 1] * factor);
  }
#endif
}
