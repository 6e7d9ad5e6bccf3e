// INT4 weight-only GEMM by WGMMA (sm_90a only) for 9 to 64 rows: out [numRows, outputs] = x [numRows, inputs] .
// weight^T + bias. Codes are copied to shared memory unchanged (pack-int4.ts) and become bf16 A fragments in registers:
// 64 outputs of a tile, 16 to each warp. One block runs on an SM. A producer warp copies weights as far ahead as shared
// memory allows, before the previous kernel ends, because no kernel writes weights. A second producer loads x by TMA.
// SPLITS blocks share the inputs of a tile. The last one to finish adds the split-K partial sums, or each keeps its own
// for the reader (KEEP_PARTIALS). Bound by the bytes of the weights.
// Options: ROWS: of x, 16, 32 or 64; WARP_GROUPS, GROUP_TILES: warp groups and tiles of each; SPLITS; WEIGHT_STAGES, a
// multiple of the tiles; ROW_STAGES; GROUP: inputs that share a scale, a multiple of 128; HAS_ZEROS; HAS_BIAS; GATED:
// out = act(first half of the matrix) * second half (ACTIVATION).
// Source: Marlin (Frantar et al. 2024) for the mixed-precision layout, warp-specialized pipelines of CUTLASS 3; PTX
// ISA, wgmma with A in registers, cp.async.bulk.tensor, mbarrier.
#include "tma.cuh"
#include "wgmma-fragments.cuh"
#include "int4-codes.cuh"
#if defined(GATED)
#include "activation.cuh"
#endif

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
#define WEIGHT_SLOT_BYTES (CODE_BYTES + 2 * SCALE_BYTES)
#define ROW_SLOT_BYTES (CHUNK / BLOCK * ROWS * LINE)
#if defined(GATED)
#define OUT_TILES (TILES / 2)
#else
#define OUT_TILES TILES
#endif
#define OUT_WIDTH (OUT_TILES * TILE)
#define SUM_STRIDE (WIDTH + 4) // keeps the eight threads that store at a time in different banks
#if defined(HAS_ZEROS)
#define TILE_BYTES (CODE_BYTES + SCALE_BYTES + ZERO_BYTES)
#else
#define TILE_BYTES (CODE_BYTES + SCALE_BYTES)
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern __shared__ __align__(16) u8 shared[];

// A fragments of one warp: 16 outputs by 64 inputs.
typedef u32 Fragments[BLOCK / 16][4];

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
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) int4_wgmma(
    const __grid_constant__ TensorMap x, // [numRows, inputs]
    const u8* codes,                     // [outputs / 64, inputs / 64, 4, 32] of 16 bytes
    const u8* scales,                    // [inputs / GROUP, outputs / 64, 8] of eight f16
    const u8* zeros,                     // [inputs / GROUP, outputs / 64, 8] of eight nibbles
    const u16* bias,                     // [outputs]
    u16* out,                            // [numRows, outputs], GATED: half as many
    float* partials,                     // [SPLITS, numRows, outputs]
    int* counters,                       // [blocks / SPLITS], zeros before and after
    int numRows, int inputs, int outputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = threadIdx.x >> 7, g = lane >> 2, t = lane & 3;
  const int split = blockIdx.x % SPLITS, block = blockIdx.x / SPLITS;
  // Tiles of the matrix, and tiles of out: half as many if GATED.
  const int numTiles = outputs / TILE, outTiles = numTiles / (TILES / OUT_TILES), outWidth = outTiles * TILE;
  const int firstTile = block * OUT_TILES, perSplit = CEIL_DIV(inputs / CHUNK, SPLITS);
  const int firstChunk = split * perSplit, endChunk = min(firstChunk + perSplit, inputs / CHUNK);

  __shared__ __align__(8) u64 barriers[2 * (WEIGHT_STAGES + ROW_STAGES)];
  const u32 weightsFull = shared_address(barriers), weightsEmpty = weightsFull + 8 * WEIGHT_STAGES;
  const u32 rowsFull = weightsEmpty + 8 * WEIGHT_STAGES, rowsEmpty = rowsFull + 8 * ROW_STAGES;
  // Lines repeat their pattern every 1024 bytes.
  u8* base = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  u8* weights = base + ROW_STAGES * ROW_SLOT_BYTES;
  const u32 rowsAt = shared_address(base), weightsAt = shared_address(weights);
  for (int i = threadIdx.x; i < 2 * (WEIGHT_STAGES + ROW_STAGES); i += THREADS) {
    const bool isEmptyBarrier = i >= WEIGHT_STAGES && (i < 2 * WEIGHT_STAGES || i >= 2 * WEIGHT_STAGES + ROW_STAGES);
    mbarrier_init(weightsFull + 8 * i, !isEmptyBarrier ? 1 : i < 2 * WEIGHT_STAGES ? 4 : 4 * WARP_GROUPS);
  }
  fence_mbarrier_init();
  __syncthreads();
  PDL_TRIGGER();

  if (warp == WARP_GROUP_THREADS / WARP) {
    // Each lane has a tile.
    if (lane < TILES) {
      const u64 policy = evict_first_policy();
      // Tiles after the last one repeat the last.
      const int tile = min(firstTile + lane % OUT_TILES, outTiles - 1) + lane / OUT_TILES * outTiles;
      const u8* from = codes + ((u64)tile * (inputs / CHUNK) + firstChunk) * CODE_BYTES;
      int slot = lane, parity = 1;
      for (int chunk = firstChunk; chunk < endChunk; chunk++) {
        const u64 set = (u64)(chunk / (GROUP / CHUNK)) * numTiles + tile;
        const u32 at = weightsAt + slot * WEIGHT_SLOT_BYTES, full = weightsFull + 8 * slot;
        mbarrier_wait_parity(weightsEmpty + 8 * slot, parity);
        mbarrier_expect_tx(full, TILE_BYTES);
        bulk_load(at, from, CODE_BYTES, full, policy);
        bulk_load(at + CODE_BYTES, scales + set * SCALE_BYTES, SCALE_BYTES, full, policy);
#if defined(HAS_ZEROS)
        bulk_load(at + CODE_BYTES + SCALE_BYTES, zeros + set * ZERO_BYTES, ZERO_BYTES, full, policy);
#endif
        from += CODE_BYTES;
        slot += TILES;
        if (slot >= WEIGHT_STAGES) slot = lane, parity ^= 1;
      }
    }
  } else if (warp == WARP_GROUP_THREADS / WARP + 1) {
    if (lane == 0) {
      const u64 policy = evict_last_policy();
      PDL_WAIT();
      int stage = 0, parity = 1;
      for (int chunk = firstChunk; chunk < endChunk; chunk++) {
        mbarrier_wait_parity(rowsEmpty + 8 * stage, parity);
        mbarrier_expect_tx(rowsFull + 8 * stage, ROW_SLOT_BYTES);
        for (int half = 0; half < CHUNK / BLOCK; half++)
          tma_load_2d(rowsAt + stage * ROW_SLOT_BYTES + half * ROWS * LINE, x, chunk * 2 * CHUNK + half * LINE, 0,
                         rowsFull + 8 * stage, policy);
        if (++stage == ROW_STAGES) stage = 0, parity ^= 1;
      }
    }
  }
  __syncwarp();
  float sums[GROUP_TILES][ROWS / 2] = {};
  if (group < WARP_GROUPS && firstChunk < endChunk) {
    const int numItems = (endChunk - firstChunk) * GROUP_TILES;
    // The slots of this warp group's tiles, adjacent in each chunk.
    int slot = group * GROUP_TILES, slotParity = 0, stage = 0, rowParity = 0;
    u32 scalePair = 0, zeroLow = 0xc308c308u, zeroHigh = 0xc308c308u;
    Fragments first, second;
    const auto open_tile = [&]() {
      mbarrier_wait_parity(weightsFull + 8 * slot, slotParity);
      const u8* at = weights + slot * WEIGHT_SLOT_BYTES;
      scalePair = reinterpret_cast<const u32*>(at + CODE_BYTES)[g * 4 + (warp & 3)];
#if defined(HAS_ZEROS)
      const u32 eight = reinterpret_cast<const u32*>(at + CODE_BYTES + SCALE_BYTES)[g];
      zeroLow = minus_zero(eight, 2 * (warp & 3));
      zeroHigh = minus_zero(eight, 2 * (warp & 3) + 1);
#endif
      decode_block(at + (threadIdx.x & 127) * 16, zeroLow, zeroHigh, first);
    };
    const auto skip_slots = [&](int count) {
      slot += count;
      if (slot >= WEIGHT_STAGES) slot -= WEIGHT_STAGES, slotParity ^= 1;
    };
    open_tile();
    for (int item = 0; item < numItems; item += GROUP_TILES) {
      mbarrier_wait_parity(rowsFull + 8 * stage, rowParity);
      const u32 rows = rowsAt + stage * ROW_SLOT_BYTES;
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        float part[ROWS / 2];
        multiply_block(part, first, rows, true);
        decode_block(weights + slot * WEIGHT_SLOT_BYTES + CODE_BYTES / 2 + (threadIdx.x & 127) * 16, zeroLow, zeroHigh, second);
        const float low = f16_to_float((u16)scalePair), high = f16_to_float((u16)(scalePair >> 16));
        multiply_block(part, second, rows + ROWS * LINE, false);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(weightsEmpty + 8 * slot);
        skip_slots(tile + 1 < GROUP_TILES ? 1 : TILES - GROUP_TILES + 1);
        wgmma_wait<1>();
        // Decodes the next tile while the WGMMAs of this one end.
        if (item + tile + 1 < numItems) open_tile();
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < ROWS / 2; i++) sums[tile][i] += (i & 2 ? high : low) * part[i];
      }
      if (lane == 0) mbarrier_arrive(rowsEmpty + 8 * stage);
      if (++stage == ROW_STAGES) stage = 0, rowParity ^= 1;
    }
  }

  // Sums are staged in the memory of weights and rows: [ROWS, SUM_STRIDE].
  float* epilogue = reinterpret_cast<float*>(base);
  __syncthreads();
  if (group < WARP_GROUPS) {
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
      for (int i = 0; i < ROWS / 2; i++) {
        const int output = (warp & 3) * 16 + g + 8 * (i >> 1 & 1), row = 8 * (i >> 2) + 2 * t + (i & 1);
        epilogue[row * SUM_STRIDE + (group * GROUP_TILES + tile) * TILE + output] = sums[tile][i];
      }
  }
  __syncthreads();
  PDL_WAIT();
  const int firstOutput = firstTile * TILE;
  const auto store_four = [&](int row, int output, float4 sum) {
#if defined(HAS_BIAS)
    const uint2 added = *reinterpret_cast<const uint2*>(bias + output);
    sum.x += bf16_low(added.x), sum.y += bf16_high(added.x), sum.z += bf16_low(added.y), sum.w += bf16_high(added.y);
#endif
    *reinterpret_cast<uint2*>(out + (u64)row * outWidth + output) =
        make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
  };
  for (int i = threadIdx.x; i < numRows * (OUT_WIDTH / 4); i += THREADS) {
    const int row = i / (OUT_WIDTH / 4), column = i % (OUT_WIDTH / 4) * 4, output = firstOutput + column;
    if (output >= outWidth) continue;
    const float* at = epilogue + row * SUM_STRIDE + column;
    float4 sum = *reinterpret_cast<const float4*>(at);
#if defined(GATED)
    const float4 second = *reinterpret_cast<const float4*>(at + OUT_WIDTH);
    sum = make_float4(activate<ACTIVATION>(sum.x) * second.x, activate<ACTIVATION>(sum.y) * second.y, activate<ACTIVATION>(sum.z) * second.z,
                      activate<ACTIVATION>(sum.w) * second.w);
#endif
    if (SPLITS == 1)
      store_four(row, output, sum);
    else
      *reinterpret_cast<float4*>(partials + ((u64)split * numRows + row) * outputs + output) = sum;
  }
#if SPLITS > 1 && !defined(KEEP_PARTIALS)
  const u64 splitSize = (u64)numRows * outputs;
  __shared__ bool isLast;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    isLast = atomicAdd(counters + block, 1) == SPLITS - 1;
    if (isLast) counters[block] = 0;
  }
  __syncthreads();
  if (!isLast) return;
  __threadfence();
  for (int i = threadIdx.x; i < numRows * (WIDTH / 4); i += THREADS) {
    const int row = i / (WIDTH / 4), output = firstOutput + i % (WIDTH / 4) * 4;
    if (output >= outputs) continue;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int s = 0; s < SPLITS; s++) {
      const float4 part = __ldcg(reinterpret_cast<const float4*>(partials + s * splitSize + (u64)row * outputs + output));
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    store_four(row, output, sum);
  }
#endif
#endif
}
