// GEMM by WGMMA (sm_90a only) for few tens of rows: out [numRows, outputs] = x [numRows, inputs] . weight^T + bias.
// Weights are the A operand, 64 outputs at a time, so that few rows of x waste nothing. One block runs on an SM. A
// producer warp loads weights by TMA as far ahead as shared memory allows, before the previous kernel ends, because no
// kernel writes weights. A second producer loads x after the wait. Each consumer warp group multiplies its own outputs.
// SPLITS blocks share the inputs of a tile; with several, each keeps its split-K partial sums for the reader.
// Options: ROWS: of x, 16, 32, 64, 96 or 128; WARP_GROUPS, GROUP_TILES: warp groups and the tiles of TILE_OUTPUTS (at most
// 64) of each; SPLITS; WEIGHT_STAGES, ROW_STAGES; WEIGHT_E4M3: both operands are FP8 codes with a scale per row;
// HAS_BIAS; GATED: out = act(first half of the matrix) * second half (ACTIVATION).
// Roofline: bytes of the weights. A launch reads outputs * inputs weights for 2 * numRows * outputs * inputs FLOP: with
// 128 rows of bf16, 128 FLOP a byte, of which an H200 needs about 200 to be bound by FLOP.
// Source: warp-specialized pipelines of CUTLASS 3; PTX ISA, wgmma.mma_async, cp.async.bulk.tensor, mbarrier,
// griddepcontrol; FP8 E4M3 (Micikevicius et al. 2022).
#include "activation.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr bool hasCodes = IS_SET(WEIGHT_E4M3), isGated = IS_SET(GATED);

#define TILES (WARP_GROUPS * GROUP_TILES)
#define WARP_GROUP_THREADS (WARP_GROUPS * 128)
#define THREADS (WARP_GROUP_THREADS + 2 * WARP)
#define WEIGHT_SLOT_BYTES (64 * LINE)
#define ROW_SLOT_BYTES (ROWS * LINE)
#define WIDTH (TILES * TILE_OUTPUTS) // sums of a row in a block
#define OUT_TILES (isGated ? TILES / 2 : TILES)
#define OUT_WIDTH (OUT_TILES * TILE_OUTPUTS)
#define SUM_STRIDE (WIDTH + 4) // keeps the eight threads that store at a time in different banks

extern __shared__ __align__(16) u8 shared[];

// Sums of one warp group, as wgmma.cuh has them.
typedef float Sums[GROUP_TILES][ROWS / 2];

// Rings of weight tiles and of rows of x in shared memory, with a full and an empty mbarrier for each stage.
struct Pipeline {
  u32 weightsFull, weightsEmpty, rowsFull, rowsEmpty;
  u32 weightsAt, rowsAt;

  __device__ __forceinline__ Pipeline(const u64* barriers, u32 base)
      : weightsFull(shared_address(barriers)),
        weightsEmpty(weightsFull + 8 * WEIGHT_STAGES),
        rowsFull(weightsEmpty + 8 * WEIGHT_STAGES),
        rowsEmpty(rowsFull + 8 * ROW_STAGES),
        weightsAt(base),
        rowsAt(base + WEIGHT_STAGES * WEIGHT_SLOT_BYTES) {}

  // By one thread. A warp of each consumer arrives at an empty barrier.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < WEIGHT_STAGES; i++) {
      mbarrier_init(weightsFull + 8 * i, 1);
      mbarrier_init(weightsEmpty + 8 * i, 4);
    }
    for (int i = 0; i < ROW_STAGES; i++) {
      mbarrier_init(rowsFull + 8 * i, 1);
      mbarrier_init(rowsEmpty + 8 * i, 4 * WARP_GROUPS);
    }
    fence_mbarrier_init();
  }

  // Row of the matrix at which a tile starts: GATED blocks take as many of both halves.
  __device__ __forceinline__ static int row_of(int tile, int firstOutput, int outputs) {
    return firstOutput + tile % OUT_TILES * TILE_OUTPUTS + (tile < OUT_TILES ? 0 : outputs);
  }

  __device__ __forceinline__ void load_weights(const TensorMap& weights, int firstOutput, int outputs, int firstChunk,
                                               int numChunks) const {
    const u64 policy = evict_first_policy();
    RingCursor<WEIGHT_STAGES> at = {0, 1};
    for (int chunk = 0; chunk < numChunks; chunk++) {
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        mbarrier_wait_parity(weightsEmpty + 8 * at.stage, at.parity);
        mbarrier_expect_tx(weightsFull + 8 * at.stage, TILE_OUTPUTS * LINE);
        tma_load_2d(weightsAt + at.stage * WEIGHT_SLOT_BYTES, weights, (firstChunk + chunk) * LINE,
                    row_of(tile, firstOutput, outputs), weightsFull + 8 * at.stage, policy);
        at.next();
      }
    }
  }

  __device__ __forceinline__ void load_rows(const TensorMap& x, int firstChunk, int numChunks) const {
    const u64 policy = evict_last_policy();
    PDL_WAIT();
    RingCursor<ROW_STAGES> at = {0, 1};
    for (int chunk = 0; chunk < numChunks; chunk++) {
      mbarrier_wait_parity(rowsEmpty + 8 * at.stage, at.parity);
      mbarrier_expect_tx(rowsFull + 8 * at.stage, ROW_SLOT_BYTES);
      tma_load_2d(rowsAt + at.stage * ROW_SLOT_BYTES, x, (firstChunk + chunk) * LINE, 0, rowsFull + 8 * at.stage, policy);
      at.next();
    }
  }

  __device__ __forceinline__ static int after(int stage, int count) { return stage_behind<WEIGHT_STAGES>(stage, count); }

  // A tile of weights times the rows of a chunk.
  __device__ __forceinline__ static void multiply(u32 weights, u32 rows, int chunk, float (&sums)[ROWS / 2]) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < LINE / 32; k++)
      wgmma_shared_shared<hasCodes ? WgmmaType::e4m3 : WgmmaType::bf16>(
          sums, shared_descriptor(weights + 32 * k), shared_descriptor(rows + 32 * k), chunk > 0 || k > 0);
  }

  // The tiles of one warp group, each chunk in flight while the one before is given back.
  __device__ __forceinline__ void multiply_tiles(int group, int numChunks, Sums& sums) const {
    const int lane = threadIdx.x & 31;
    int slot = group * GROUP_TILES, slotParity = 0, slotBefore = 0, stageBefore = 0;
    RingCursor<ROW_STAGES> at = {0, 0};
    for (int chunk = 0; chunk < numChunks; chunk++) {
      mbarrier_wait_parity(rowsFull + 8 * at.stage, at.parity);
      const u32 rows = rowsAt + at.stage * ROW_SLOT_BYTES;
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        const int full = after(slot, tile);
        mbarrier_wait_parity(weightsFull + 8 * full, full < slot ? slotParity ^ 1 : slotParity);
        multiply(weightsAt + full * WEIGHT_SLOT_BYTES, rows, chunk, sums[tile]);
      }
      wgmma_commit();
      // The chunk before this one has been read.
      wgmma_wait<1>();
      if (chunk > 0 && lane == 0) {
#pragma unroll
        for (int tile = 0; tile < GROUP_TILES; tile++) mbarrier_arrive(weightsEmpty + 8 * after(slotBefore, tile));
        mbarrier_arrive(rowsEmpty + 8 * stageBefore);
      }
      slotBefore = slot, stageBefore = at.stage;
      slot = after(slot, TILES);
      if (slot < slotBefore) slotParity ^= 1;
      at.next();
    }
    wgmma_wait<0>();
  }
};

// Calls `use(row of x, output in the warp group's tile, tile, sum)` for each sum that the thread holds.
template <typename Use>
__device__ __forceinline__ void each_sum(const Sums& sums, Use use) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++)
      use(8 * (i >> 2) + 2 * t + (i & 1), (warp & 3) * 16 + g + 8 * (i >> 1 & 1), tile, sums[tile][i]);
}

__device__ __forceinline__ void scale_four(float4& sum, const float* columnScales, float rowScale) {
  if constexpr (hasCodes) {
    const float4 scales = *reinterpret_cast<const float4*>(columnScales);
    sum.x *= scales.x * rowScale, sum.y *= scales.y * rowScale, sum.z *= scales.z * rowScale, sum.w *= scales.w * rowScale;
  }
}

// Four outputs from the sums of a row: `second` the sums of the other half of a gated matrix.
__device__ __forceinline__ float4 finish_four(float4 sum, const float* second, const float* columnScales, float rowScale,
                                              int outputs, const u16* bias) {
  scale_four(sum, columnScales, rowScale);
  if constexpr (isGated) {
    float4 up = *reinterpret_cast<const float4*>(second);
    scale_four(up, columnScales + outputs, rowScale);
    sum = make_float4(activate<ACTIVATION>(sum.x) * up.x, activate<ACTIVATION>(sum.y) * up.y,
                      activate<ACTIVATION>(sum.z) * up.z, activate<ACTIVATION>(sum.w) * up.w);
  }
  if constexpr (IS_SET(HAS_BIAS)) {
    const uint2 added = *reinterpret_cast<const uint2*>(bias);
    sum.x += bf16_low(added.x), sum.y += bf16_high(added.x), sum.z += bf16_low(added.y), sum.w += bf16_high(added.y);
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_gemm(
    const TensorMap* weights,  // [outputs, inputs], GATED: [2 * outputs, inputs]
    const TensorMap* x,        // [numRows, inputs]
    const float* rowScales,    // [numRows] of codes
    const float* columnScales, // likewise, one a row of weights
    const u16* bias,           // [outputs]
    u16* out,                  // [numRows, outputs]
    float* parts,              // in its place [SPLITS, numRows, outputs], without scales
    int numRows, int outputs, int chunksPerSplit) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = threadIdx.x >> 7;
  const int split = blockIdx.x % SPLITS;
  const int firstOutput = (blockIdx.x / SPLITS) * OUT_WIDTH, firstChunk = split * chunksPerSplit;

  __shared__ __align__(8) u64 barriers[2 * (WEIGHT_STAGES + ROW_STAGES)];
  u8* base = shared + swizzle_padding(shared_address(shared));
  const Pipeline pipeline(barriers, shared_address(base));
  if (threadIdx.x == 0) pipeline.init();
  __syncthreads();
  PDL_TRIGGER();

  if (warp == WARP_GROUP_THREADS / WARP) {
    if (lane == 0) pipeline.load_weights(*weights, firstOutput, outputs, firstChunk, chunksPerSplit);
  } else if (warp == WARP_GROUP_THREADS / WARP + 1) {
    if (lane == 0) pipeline.load_rows(*x, firstChunk, chunksPerSplit);
  }
  __syncwarp();
  Sums sums = {};
  if (group < WARP_GROUPS) pipeline.multiply_tiles(group, chunksPerSplit, sums);

  if constexpr (SPLITS > 1) {
    PDL_WAIT();
    if (group >= WARP_GROUPS) return;
    each_sum(sums, [&](int row, int inTile, int tile, float sum) {
      const int output = firstOutput + (group * GROUP_TILES + tile) * TILE_OUTPUTS + inTile;
      if (inTile < TILE_OUTPUTS && output < outputs && row < numRows)
        parts[((u64)split * numRows + row) * outputs + output] = sum;
    });
    return;
  }
  // Sums are staged in the memory of weights and rows: [ROWS, SUM_STRIDE].
  float* epilogue = reinterpret_cast<float*>(base);
  __syncthreads();
  if (group < WARP_GROUPS) {
    each_sum(sums, [&](int row, int inTile, int tile, float sum) {
      if (inTile < TILE_OUTPUTS) epilogue[row * SUM_STRIDE + (group * GROUP_TILES + tile) * TILE_OUTPUTS + inTile] = sum;
    });
  }
  __syncthreads();
  PDL_WAIT();
  for (int i = threadIdx.x; i < numRows * (OUT_WIDTH / 4); i += THREADS) {
    const int row = i / (OUT_WIDTH / 4), column = i % (OUT_WIDTH / 4) * 4, output = firstOutput + column;
    if (output >= outputs) continue;
    const float* at = epilogue + row * SUM_STRIDE + column;
    const float4 four = finish_four(*reinterpret_cast<const float4*>(at), at + OUT_WIDTH, columnScales + output,
                                    hasCodes ? rowScales[row] : 1.f, outputs, bias + output);
    *reinterpret_cast<uint2*>(out + (u64)row * outputs + output) =
        make_uint2(pack_bf16(four.x, four.y), pack_bf16(four.z, four.w));
  }
}
