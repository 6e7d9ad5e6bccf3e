// INT4 weight-only GEMM by WGMMA (sm_90a only) for 9 to 64 rows: out [numRows, outputs] = x [numRows, inputs] .
// weight^T + bias. Codes are copied to shared memory unchanged (pack-int4.ts) and become bf16 A fragments in registers:
// 64 outputs of a tile, 16 to each warp. One block runs on an SM. A producer warp copies weights as far ahead as shared
// memory allows, before the previous kernel ends, because no kernel writes weights. A second producer loads x by TMA.
// SPLITS blocks share the inputs of a tile. The last one to finish adds the split-K partial sums, or each keeps its own
// for the reader (KEEP_PARTIALS). Bound by the bytes of the weights.
// Options: ROWS: of x, 16, 32 or 64; WARP_GROUPS, GROUP_TILES: warp groups and tiles of each; SPLITS; WEIGHT_STAGES, a
// multiple of the tiles; ROW_STAGES; GROUP: inputs that share a scale, a multiple of 128; HAS_ZEROS; HAS_BIAS; GATED:
// out = act(first half of the matrix) * second half (ACTIVATION).
// Roofline: bytes of the weights. A launch reads outputs * inputs / 2 bytes of codes and a scale for GROUP of them, for
// 2 * numRows * outputs * inputs FLOP: with 64 rows, 256 FLOP a byte, of which an H200 needs about 200.
// Source: Marlin (Frantar et al. 2024) for the mixed-precision layout, warp-specialized pipelines of CUTLASS 3; PTX
// ISA, wgmma with A in registers, cp.async.bulk.tensor, mbarrier.
#include "activation.cuh"
#include "int4-codes.cuh"
#include "last-block.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr bool hasZeros = IS_SET(HAS_ZEROS), isGated = IS_SET(GATED);
constexpr bool addsPartials = SPLITS > 1 && !IS_SET(KEEP_PARTIALS);

#define CHUNK 128 // inputs
#define BLOCK 64
#define TILE 64 // outputs
#define TILES (WARP_GROUPS * GROUP_TILES)
#define WIDTH (TILES * TILE)
#define WARP_GROUP_THREADS (WARP_GROUPS * 128)
#define THREADS (WARP_GROUP_THREADS + 2 * WARP)
#define CODE_BYTES (TILE * CHUNK / 2)
#define SCALE_BYTES (TILE * 2)
#define ZERO_BYTES (TILE / 2)
#define TILE_BYTES (CODE_BYTES + SCALE_BYTES + (hasZeros ? ZERO_BYTES : 0))
#define WEIGHT_SLOT_BYTES (CODE_BYTES + 2 * SCALE_BYTES)
#define ROW_SLOT_BYTES (CHUNK / BLOCK * ROWS * LINE)
#define OUT_TILES (isGated ? TILES / 2 : TILES)
#define OUT_WIDTH (OUT_TILES * TILE)
#define SUM_STRIDE (WIDTH + 4) // keeps the eight threads that store at a time in different banks

extern __shared__ __align__(16) u8 shared[];

// A fragments of one warp: 16 outputs by 64 inputs.
typedef u32 Fragments[BLOCK / 16][4];
// Sums of one warp group, as wgmma.cuh has them.
typedef float Sums[GROUP_TILES][ROWS / 2];

__device__ __forceinline__ void decode_block(const u8* codes, u32 zeroLow, u32 zeroHigh, Fragments& a) {
  const uint4 four = *reinterpret_cast<const uint4*>(codes);
#pragma unroll
  for (int step = 0; step < BLOCK / 16; step++) decode(word_of(four, step), zeroLow, zeroHigh, a[step]);
}

__device__ __forceinline__ void multiply_block(float (&part)[ROWS / 2], const Fragments& a, u32 rows, bool isFirst) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < BLOCK / 16; step++)
    wgmma_register_shared(part, a[step], shared_descriptor(rows + 32 * step), !isFirst || step > 0);
  wgmma_commit();
}

// Rings of weight tiles and of rows of x in shared memory, with a full and an empty mbarrier for each stage.
struct Pipeline {
  u32 weightsFull, weightsEmpty, rowsFull, rowsEmpty;
  u32 weightsAt, rowsAt;
  const u8* weights;

  __device__ __forceinline__ Pipeline(const u64* barriers, const u8* base)
      : weightsFull(shared_address(barriers)),
        weightsEmpty(weightsFull + 8 * WEIGHT_STAGES),
        rowsFull(weightsEmpty + 8 * WEIGHT_STAGES),
        rowsEmpty(rowsFull + 8 * ROW_STAGES),
        weightsAt(shared_address(base + ROW_STAGES * ROW_SLOT_BYTES)),
        rowsAt(shared_address(base)),
        weights(base + ROW_STAGES * ROW_SLOT_BYTES) {}

  // A warp of each consumer arrives at an empty barrier.
  __device__ __forceinline__ void init() const {
    for (int i = threadIdx.x; i < 2 * (WEIGHT_STAGES + ROW_STAGES); i += THREADS) {
      const bool isEmptyBarrier = i >= WEIGHT_STAGES && (i < 2 * WEIGHT_STAGES || i >= 2 * WEIGHT_STAGES + ROW_STAGES);
      mbarrier_init(weightsFull + 8 * i, !isEmptyBarrier ? 1 : i < 2 * WEIGHT_STAGES ? 4 : 4 * WARP_GROUPS);
    }
    fence_mbarrier_init();
  }

  // By one lane for each tile of a chunk: `tile` of the matrix has `numTiles`.
  __device__ __forceinline__ void load_weights(const u8* codes, const u8* scales, const u8* zeros, int tile, int numTiles,
                                               int numChunks, int firstChunk, int endChunk) const {
    const int lane = threadIdx.x & 31;
    const u64 policy = evict_first_policy();
    const u8* from = codes + ((u64)tile * numChunks + firstChunk) * CODE_BYTES;
    int slot = lane, parity = 1;
    for (int chunk = firstChunk; chunk < endChunk; chunk++) {
      const u64 set = (u64)(chunk / (GROUP / CHUNK)) * numTiles + tile;
      const u32 at = weightsAt + slot * WEIGHT_SLOT_BYTES, full = weightsFull + 8 * slot;
      mbarrier_wait_parity(weightsEmpty + 8 * slot, parity);
      mbarrier_expect_tx(full, TILE_BYTES);
      bulk_load(at, from, CODE_BYTES, full, policy);
      bulk_load(at + CODE_BYTES, scales + set * SCALE_BYTES, SCALE_BYTES, full, policy);
      if constexpr (hasZeros) bulk_load(at + CODE_BYTES + SCALE_BYTES, zeros + set * ZERO_BYTES, ZERO_BYTES, full, policy);
      from += CODE_BYTES;
      slot += TILES;
      if (slot >= WEIGHT_STAGES) slot = lane, parity ^= 1;
    }
  }

  __device__ __forceinline__ void load_rows(const TensorMap& x, int firstChunk, int endChunk) const {
    const u64 policy = evict_last_policy();
    PDL_WAIT();
    RingCursor<ROW_STAGES> at = {0, 1};
    for (int chunk = firstChunk; chunk < endChunk; chunk++) {
      mbarrier_wait_parity(rowsEmpty + 8 * at.stage, at.parity);
      mbarrier_expect_tx(rowsFull + 8 * at.stage, ROW_SLOT_BYTES);
      for (int half = 0; half < CHUNK / BLOCK; half++)
        tma_load_2d(rowsAt + at.stage * ROW_SLOT_BYTES + half * ROWS * LINE, x, chunk * 2 * CHUNK + half * LINE, 0,
                    rowsFull + 8 * at.stage, policy);
      at.next();
    }
  }
};

// A warp group's way through its weight tiles, adjacent in each chunk. The first half of a tile is decoded while the
// WGMMAs of the tile before end.
struct TileDecoder {
  const Pipeline& pipeline;
  int slot, parity = 0;
  u32 scalePair = 0, zeroLow = 0xc308c308u, zeroHigh = 0xc308c308u;
  Fragments first, second;

  __device__ __forceinline__ TileDecoder(const Pipeline& of, int group) : pipeline(of), slot(group * GROUP_TILES) {}

  __device__ __forceinline__ const u8* tile() const { return pipeline.weights + slot * WEIGHT_SLOT_BYTES; }

  __device__ __forceinline__ void open() {
    const int g = (threadIdx.x & 31) >> 2, inGroup = threadIdx.x >> 5 & 3;
    mbarrier_wait_parity(pipeline.weightsFull + 8 * slot, parity);
    const u8* at = tile();
    scalePair = reinterpret_cast<const u32*>(at + CODE_BYTES)[g * 4 + inGroup];
    if constexpr (hasZeros) {
      const u32 eight = reinterpret_cast<const u32*>(at + CODE_BYTES + SCALE_BYTES)[g];
      zeroLow = minus_zero(eight, 2 * inGroup);
      zeroHigh = minus_zero(eight, 2 * inGroup + 1);
    }
    decode_block(at + (threadIdx.x & 127) * 16, zeroLow, zeroHigh, first);
  }

  __device__ __forceinline__ void decode_second() {
    decode_block(tile() + CODE_BYTES / 2 + (threadIdx.x & 127) * 16, zeroLow, zeroHigh, second);
  }

  // Gives the tile back; `count` slots further is the next one.
  __device__ __forceinline__ void leave(int count) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) mbarrier_arrive(pipeline.weightsEmpty + 8 * slot);
    slot += count;
    if (slot >= WEIGHT_STAGES) slot -= WEIGHT_STAGES, parity ^= 1;
  }
};

__device__ __forceinline__ void multiply_tiles(const Pipeline& pipeline, int group, int numChunks, Sums& sums) {
  const int numItems = numChunks * GROUP_TILES;
  RingCursor<ROW_STAGES> row = {0, 0};
  TileDecoder tiles(pipeline, group);
  tiles.open();
  for (int item = 0; item < numItems; item += GROUP_TILES) {
    mbarrier_wait_parity(pipeline.rowsFull + 8 * row.stage, row.parity);
    const u32 rows = pipeline.rowsAt + row.stage * ROW_SLOT_BYTES;
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++) {
      float part[ROWS / 2];
      multiply_block(part, tiles.first, rows, true);
      tiles.decode_second();
      const float low = f16_to_float((u16)tiles.scalePair), high = f16_to_float((u16)(tiles.scalePair >> 16));
      multiply_block(part, tiles.second, rows + ROWS * LINE, false);
      tiles.leave(tile + 1 < GROUP_TILES ? 1 : TILES - GROUP_TILES + 1);
      wgmma_wait<1>();
      if (item + tile + 1 < numItems) tiles.open();
      wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < ROWS / 2; i++) sums[tile][i] += (i & 2 ? high : low) * part[i];
    }
    if ((threadIdx.x & 31) == 0) mbarrier_arrive(pipeline.rowsEmpty + 8 * row.stage);
    row.next();
  }
}

// Stages a warp group's sums in shared memory: [ROWS, SUM_STRIDE].
__device__ __forceinline__ void stage_sums(float* epilogue, int group, const Sums& sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) {
      const int output = (warp & 3) * 16 + g + 8 * (i >> 1 & 1), row = 8 * (i >> 2) + 2 * t + (i & 1);
      epilogue[row * SUM_STRIDE + (group * GROUP_TILES + tile) * TILE + output] = sums[tile][i];
    }
}

// Four sums of a row; of a gated matrix with those of its other half.
__device__ __forceinline__ float4 gated_four(const float* at) {
  const float4 sum = *reinterpret_cast<const float4*>(at);
  if constexpr (!isGated) return sum;
  const float4 up = *reinterpret_cast<const float4*>(at + OUT_WIDTH);
  return make_float4(activate<ACTIVATION>(sum.x) * up.x, activate<ACTIVATION>(sum.y) * up.y,
                     activate<ACTIVATION>(sum.z) * up.z, activate<ACTIVATION>(sum.w) * up.w);
}

__device__ __forceinline__ void store_four(u16* out, const u16* bias, float4 sum) {
  if constexpr (IS_SET(HAS_BIAS)) {
    const uint2 added = *reinterpret_cast<const uint2*>(bias);
    sum.x += bf16_low(added.x), sum.y += bf16_high(added.x), sum.z += bf16_low(added.y), sum.w += bf16_high(added.y);
  }
  *reinterpret_cast<uint2*>(out) = make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) int4_wgmma(
    const TensorMap* x, // [numRows, inputs]
    const u8* codes,    // [outputs / 64, inputs / 64, 4, 32] of 16 bytes
    const u8* scales,   // [inputs / GROUP, outputs / 64, 8] of eight f16
    const u8* zeros,    // [inputs / GROUP, outputs / 64, 8] of eight nibbles
    const u16* bias,    // [outputs]
    u16* out,           // [numRows, outputs], GATED: half as many
    float* partials,    // [SPLITS, numRows, outputs]
    int* counters,      // [blocks / SPLITS], zeros before and after
    int numRows, int inputs, int outputs) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = threadIdx.x >> 7;
  const int split = blockIdx.x % SPLITS, block = blockIdx.x / SPLITS;
  // Tiles of the matrix, and tiles of out: half as many if GATED.
  const int numTiles = outputs / TILE, outTiles = numTiles / (TILES / OUT_TILES), outWidth = outTiles * TILE;
  const int firstTile = block * OUT_TILES, perSplit = CEIL_DIV(inputs / CHUNK, SPLITS);
  const int firstChunk = split * perSplit, endChunk = min(firstChunk + perSplit, inputs / CHUNK);

  __shared__ __align__(8) u64 barriers[2 * (WEIGHT_STAGES + ROW_STAGES)];
  u8* base = shared + swizzle_padding(shared_address(shared));
  const Pipeline pipeline(barriers, base);
  pipeline.init();
  __syncthreads();
  PDL_TRIGGER();

  if (warp == WARP_GROUP_THREADS / WARP) {
    // Tiles after the last one repeat the last.
    const int tile = min(firstTile + lane % OUT_TILES, outTiles - 1) + lane / OUT_TILES * outTiles;
    if (lane < TILES) pipeline.load_weights(codes, scales, zeros, tile, numTiles, inputs / CHUNK, firstChunk, endChunk);
  } else if (warp == WARP_GROUP_THREADS / WARP + 1) {
    if (lane == 0) pipeline.load_rows(*x, firstChunk, endChunk);
  }
  __syncwarp();
  Sums sums = {};
  if (group < WARP_GROUPS && firstChunk < endChunk) multiply_tiles(pipeline, group, endChunk - firstChunk, sums);

  // In the memory of weights and rows.
  float* epilogue = reinterpret_cast<float*>(base);
  __syncthreads();
  if (group < WARP_GROUPS) stage_sums(epilogue, group, sums);
  __syncthreads();
  PDL_WAIT();
  const int firstOutput = firstTile * TILE;
  for (int i = threadIdx.x; i < numRows * (OUT_WIDTH / 4); i += THREADS) {
    const int row = i / (OUT_WIDTH / 4), column = i % (OUT_WIDTH / 4) * 4, output = firstOutput + column;
    if (output >= outWidth) continue;
    const float4 sum = gated_four(epilogue + row * SUM_STRIDE + column);
    if constexpr (SPLITS == 1)
      store_four(out + (u64)row * outWidth + output, bias + output, sum);
    else
      *reinterpret_cast<float4*>(partials + ((u64)split * numRows + row) * outputs + output) = sum;
  }
  if constexpr (addsPartials) {
    __shared__ bool isLast;
    if (!is_last_block(counters + block, SPLITS, isLast)) return;
    const u64 splitSize = (u64)numRows * outputs;
    for (int i = threadIdx.x; i < numRows * (WIDTH / 4); i += THREADS) {
      const int row = i / (WIDTH / 4), output = firstOutput + i % (WIDTH / 4) * 4;
      if (output >= outputs) continue;
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int s = 0; s < SPLITS; s++) {
        const float4 part = __ldcg(reinterpret_cast<const float4*>(partials + s * splitSize + (u64)row * outputs + output));
        sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      }
      store_four(out + (u64)row * outWidth + output, bias + output, sum);
    }
  }
}
