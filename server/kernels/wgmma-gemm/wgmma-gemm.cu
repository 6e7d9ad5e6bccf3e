// GEMM by WGMMA (sm_90a only) for few tens of rows: out [numRows, outputs] = x [numRows, inputs] . weight^T + bias.
// Weights are the A operand, 64 outputs at a time, so that few rows of x waste nothing. One block runs on an SM. A
// producer warp loads weights by TMA as far ahead as shared memory allows, before the previous kernel ends, because no
// kernel writes weights. A second producer loads x after the wait. Each consumer warp group multiplies its own outputs.
// SPLITS blocks share the inputs of a tile; with several, each keeps its split-K partial sums for the reader. Bound by
// the bytes of the weights.
// Options: ROWS: of x, 16, 32, 64 or 128; WARP_GROUPS, GROUP_TILES: warp groups and the tiles of TILE_OUTPUTS (at most
// 64) of each; SPLITS; WEIGHT_STAGES, ROW_STAGES; WEIGHT_E4M3: both operands are FP8 codes with a scale per row;
// HAS_BIAS; GATED: out = act(first half of the matrix) * second half (ACTIVATION).
// Source: warp-specialized pipelines of CUTLASS 3; PTX ISA, wgmma.mma_async, cp.async.bulk.tensor, mbarrier,
// griddepcontrol; FP8 E4M3 (Micikevicius et al. 2022).
#include "tma.cuh"
#include "wgmma-tile.cuh"
#if defined(GATED)
#include "activation.cuh"
#endif

#define TILES (WARP_GROUPS * GROUP_TILES)
#define WARP_GROUP_THREADS (WARP_GROUPS * 128)
#define THREADS (WARP_GROUP_THREADS + 2 * WARP)
#define WEIGHT_SLOT_BYTES (64 * LINE)
#define ROW_SLOT_BYTES (ROWS * LINE)
#define WIDTH (TILES * TILE_OUTPUTS) // sums of a row in a block
#if defined(GATED)
#define OUT_WIDTH (WIDTH / 2)
#else
#define OUT_WIDTH WIDTH
#endif
#define SUM_STRIDE (WIDTH + 4) // keeps the eight threads that store at a time in different banks

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern __shared__ __align__(16) u8 shared[];

__device__ __forceinline__ void scale_four(float4& sum, const float* columnScales, float rowScale) {
#if defined(WEIGHT_E4M3)
  const float4 scales = *reinterpret_cast<const float4*>(columnScales);
  sum.x *= scales.x * rowScale, sum.y *= scales.y * rowScale, sum.z *= scales.z * rowScale, sum.w *= scales.w * rowScale;
#endif
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) wgmma_gemm(
    const __grid_constant__ TensorMap weights, // [outputs, inputs], GATED: [2 * outputs, inputs]
    const __grid_constant__ TensorMap x,       // [numRows, inputs]
    const float* rowScales,                    // [numRows] of codes
    const float* columnScales,                 // likewise, one a row of weights
    const u16* bias,                           // [outputs]
    u16* out,                                  // [numRows, outputs]
    float* parts,                              // in its place [SPLITS, numRows, outputs], without scales
    int numRows, int outputs, int chunksPerSplit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = threadIdx.x >> 7;
  const int split = blockIdx.x % SPLITS;
  const int firstOutput = (blockIdx.x / SPLITS) * OUT_WIDTH, firstChunk = split * chunksPerSplit;

  __shared__ __align__(8) u64 barriers[2 * (WEIGHT_STAGES + ROW_STAGES)];
  const u32 weightsFull = shared_address(barriers), weightsEmpty = weightsFull + 8 * WEIGHT_STAGES;
  const u32 rowsFull = weightsEmpty + 8 * WEIGHT_STAGES, rowsEmpty = rowsFull + 8 * ROW_STAGES;
  // Lines repeat their pattern every 1024 bytes.
  u8* base = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  const u32 weightsAt = shared_address(base), rowsAt = weightsAt + WEIGHT_STAGES * WEIGHT_SLOT_BYTES;
  if (threadIdx.x == 0) {
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
  __syncthreads();
  PDL_TRIGGER();

  if (warp == WARP_GROUP_THREADS / WARP) {
    if (lane == 0) {
      const u64 policy = evict_first_policy();
      int stage = 0, parity = 1;
      for (int chunk = 0; chunk < chunksPerSplit; chunk++) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
#if defined(GATED)
          const int row = firstOutput + (tile % (TILES / 2)) * TILE_OUTPUTS + (tile < TILES / 2 ? 0 : outputs);
#else
          const int row = firstOutput + tile * TILE_OUTPUTS;
#endif
          mbarrier_wait_parity(weightsEmpty + 8 * stage, parity);
          mbarrier_expect_tx(weightsFull + 8 * stage, TILE_OUTPUTS * LINE);
          tma_load_2d(weightsAt + stage * WEIGHT_SLOT_BYTES, weights, (firstChunk + chunk) * LINE, row,
                         weightsFull + 8 * stage, policy);
          if (++stage == WEIGHT_STAGES) stage = 0, parity ^= 1;
        }
      }
    }
  } else if (warp == WARP_GROUP_THREADS / WARP + 1) {
    if (lane == 0) {
      const u64 policy = evict_last_policy();
      PDL_WAIT();
      int stage = 0, parity = 1;
      for (int chunk = 0; chunk < chunksPerSplit; chunk++) {
        mbarrier_wait_parity(rowsEmpty + 8 * stage, parity);
        mbarrier_expect_tx(rowsFull + 8 * stage, ROW_SLOT_BYTES);
        tma_load_2d(rowsAt + stage * ROW_SLOT_BYTES, x, (firstChunk + chunk) * LINE, 0, rowsFull + 8 * stage, policy);
        if (++stage == ROW_STAGES) stage = 0, parity ^= 1;
      }
    }
  }
  __syncwarp();
  const int g = lane >> 2, t = lane & 3;
  float sums[GROUP_TILES][ROWS / 2] = {};
  if (group < WARP_GROUPS) {
    int slot = group * GROUP_TILES, slotParity = 0, stage = 0, parity = 0, slotBefore = 0, stageBefore = 0;
    const auto after = [](int at, int count) { return at + count >= WEIGHT_STAGES ? at + count - WEIGHT_STAGES : at + count; };
    for (int chunk = 0; chunk < chunksPerSplit; chunk++) {
      mbarrier_wait_parity(rowsFull + 8 * stage, parity);
      const u32 rows = rowsAt + stage * ROW_SLOT_BYTES;
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        const int at = after(slot, tile);
        mbarrier_wait_parity(weightsFull + 8 * at, at < slot ? slotParity ^ 1 : slotParity);
        const u32 lines = weightsAt + at * WEIGHT_SLOT_BYTES;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < LINE / 32; k++)
          wgmma_shared_shared(sums[tile], shared_descriptor(lines + 32 * k), shared_descriptor(rows + 32 * k), chunk > 0 || k > 0);
      }
      wgmma_commit();
      // The chunk before this one has been read.
      wgmma_wait<1>();
      if (chunk > 0 && lane == 0) {
#pragma unroll
        for (int tile = 0; tile < GROUP_TILES; tile++) mbarrier_arrive(weightsEmpty + 8 * after(slotBefore, tile));
        mbarrier_arrive(rowsEmpty + 8 * stageBefore);
      }
      slotBefore = slot, stageBefore = stage;
      slot = after(slot, TILES);
      if (slot < slotBefore) slotParity ^= 1;
      if (++stage == ROW_STAGES) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>();
  }

#if SPLITS > 1
  PDL_WAIT();
  if (group >= WARP_GROUPS) return;
#pragma unroll
  for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) {
      const int inTile = (warp & 3) * 16 + g + 8 * (i >> 1 & 1), row = 8 * (i >> 2) + 2 * t + (i & 1);
      const int output = firstOutput + (group * GROUP_TILES + tile) * TILE_OUTPUTS + inTile;
      if (inTile < TILE_OUTPUTS && output < outputs && row < numRows)
        parts[((u64)split * numRows + row) * outputs + output] = sums[tile][i];
    }
#else
  // Sums are staged in the memory of weights and rows: [ROWS, SUM_STRIDE].
  float* epilogue = reinterpret_cast<float*>(base);
  __syncthreads();
  if (group < WARP_GROUPS) {
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++)
#pragma unroll
      for (int i = 0; i < ROWS / 2; i++) {
        const int output = (warp & 3) * 16 + g + 8 * (i >> 1 & 1), row = 8 * (i >> 2) + 2 * t + (i & 1);
        if (output < TILE_OUTPUTS)
          epilogue[row * SUM_STRIDE + (group * GROUP_TILES + tile) * TILE_OUTPUTS + output] = sums[tile][i];
      }
  }
  __syncthreads();
  PDL_WAIT();
  for (int i = threadIdx.x; i < numRows * (OUT_WIDTH / 4); i += THREADS) {
    const int row = i / (OUT_WIDTH / 4), column = i % (OUT_WIDTH / 4) * 4, output = firstOutput + column;
    if (output >= outputs) continue;
    const float* at = epilogue + row * SUM_STRIDE + column;
    float4 sum = *reinterpret_cast<const float4*>(at);
#if defined(WEIGHT_E4M3)
    const float rowScale = rowScales[row];
#else
    const float rowScale = 1.f;
#endif
    scale_four(sum, columnScales + output, rowScale);
#if defined(GATED)
    float4 second = *reinterpret_cast<const float4*>(at + OUT_WIDTH);
    scale_four(second, columnScales + outputs + output, rowScale);
    sum = make_float4(activate<ACTIVATION>(sum.x) * second.x, activate<ACTIVATION>(sum.y) * second.y, activate<ACTIVATION>(sum.z) * second.z,
                      activate<ACTIVATION>(sum.w) * second.w);
#endif
#if defined(HAS_BIAS)
    const uint2 added = *reinterpret_cast<const uint2*>(bias + output);
    sum.x += bf16_low(added.x), sum.y += bf16_high(added.x), sum.z += bf16_low(added.y), sum.w += bf16_high(added.y);
#endif
    *reinterpret_cast<uint2*>(out + (u64)row * outputs + output) =
        make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
  }
#endif
#endif
}
