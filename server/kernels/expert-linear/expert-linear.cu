// Grouped GEMM of a mixture of experts: out[choice] = x[row of choice] . weight[expert]^T, bf16 on tensor cores. x is
// [numTokens, inputs], weight [numExperts, outputs, inputs], out [numChoices, outputs]. A block takes 64 outputs of one
// expert and up to TOKENS of its choices. The weights are the A operand, so that 8 choices fill a tile. Bound by the
// bytes of the chosen experts for few tokens, by FLOP for many.
// Choices arrive sorted by expert (group-by-expert.cu); results go to the place of their choice. Options: TOKENS: 8,
// 16, 32 or 64.
// Source: mixture of experts (Shazeer et al. 2017; Fedus et al. 2021); PTX ISA, mma.sync.
#include "mma.cuh"

#define WARPS 4
#define THREADS (WARPS * WARP)
#define OUTPUTS 64
#define DEPTH 64
#define STAGES 3
#define STRIDE (DEPTH * 2 + 16)
#define WEIGHT_BYTES (OUTPUTS * STRIDE)
#define STAGE_BYTES (WEIGHT_BYTES + TOKENS * STRIDE)
#define TILES (TOKENS / 8)
#define PIECES (DEPTH / 8)

extern __shared__ __align__(16) u8 shared[];

// The expert that a number of a tile belongs to, and its first choice; one warp.
__device__ __forceinline__ int2 find_tile(const int* starts, int numExperts, int tile) {
  const int lane = threadIdx.x & 31;
  int before = 0;
  for (int base = 0; base < numExperts; base += WARP) {
    const int expert = base + lane;
    const int start = expert < numExperts ? starts[expert] : 0;
    const int tiles = expert < numExperts ? CEIL_DIV(starts[expert + 1] - start, TOKENS) : 0;
    int sum = tiles;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
      const int other = __shfl_up_sync(FULL_MASK, sum, offset);
      if (lane >= offset) sum += other;
    }
    const u32 hits = __ballot_sync(FULL_MASK, before + sum > tile);
    if (hits != 0) {
      const int hit = __ffs(hits) - 1;
      const int first = start + (tile - before - (sum - tiles)) * TOKENS;
      return make_int2(base + hit, __shfl_sync(FULL_MASK, first, hit));
    }
    before += __shfl_sync(FULL_MASK, sum, 31);
  }
  return make_int2(-1, 0);
}

extern "C" __global__ void __launch_bounds__(THREADS) expert_linear(
    const u16* x,      // [numChoices / choicesPerRow, inputs]
    const u16* weight, // [numExperts, outputs, inputs]
    const int* starts, // [numExperts + 1]
    const int* order,  // [numChoices]
    u16* out,          // [numChoices, outputs]
    int numExperts, int inputs, int outputs, int choicesPerRow) {
  __shared__ int2 found;
  __shared__ int choices[TOKENS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUTS;
  PDL_TRIGGER();
  PDL_WAIT();
  if (warp == 0) {
    const int2 tile = find_tile(starts, numExperts, blockIdx.y);
    if (lane == 0) found = tile;
  }
  __syncthreads();
  const int expert = found.x, first = found.y;
  if (expert < 0) return;
  const int numHere = min(TOKENS, starts[expert + 1] - first);
  for (int i = threadIdx.x; i < TOKENS; i += THREADS) choices[i] = i < numHere ? order[first + i] : -1;
  __syncthreads();
  const u16* matrix = weight + (u64)expert * outputs * inputs;
  const int numSteps = CEIL_DIV(inputs, DEPTH);
  const auto copy_step = [&](int step) {
    if (step < numSteps) {
      const u32 to = shared_address(shared + (step % STAGES) * STAGE_BYTES);
#pragma unroll
      for (int c = threadIdx.x; c < (OUTPUTS + TOKENS) * PIECES; c += THREADS) {
        const int row = c / PIECES, k = step * DEPTH + (c % PIECES) * 8;
        const bool isWeight = row < OUTPUTS;
        const int choice = isWeight ? 0 : choices[row - OUTPUTS];
        const bool isThere = k < inputs && (isWeight ? firstOutput + row < outputs : choice >= 0);
        const u16* from = isWeight ? matrix + (u64)(firstOutput + row) * inputs + k
                                   : x + (u64)(choice / choicesPerRow) * inputs + k;
        cp_async(to + row * STRIDE + (c % PIECES) * 16, isThere ? from : weight, isThere);
      }
    }
    cp_async_commit();
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) copy_step(s);
  float sums[TILES][4] = {};
  for (int step = 0; step < numSteps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    copy_step(step + STAGES - 1);
    const u32 base = shared_address(shared + (step % STAGES) * STAGE_BYTES);
    const u32 weights = base + (warp * 16 + (lane & 15)) * STRIDE + (lane >> 4) * 16;
    const u32 rows = base + WEIGHT_BYTES + (lane & 7) * STRIDE + (lane >> 3) * 16;
#pragma unroll
    for (int k = 0; k < DEPTH / 32; k++) {
      u32 a[2][4];
      ldmatrix_x4(a[0], weights + k * 64);
      ldmatrix_x4(a[1], weights + k * 64 + 32);
#pragma unroll
      for (int i = 0; i < TILES; i++) {
        u32 b[4];
        ldmatrix_x4(b, rows + i * 8 * STRIDE + k * 64);
        mma_bf16(sums[i], a[0], b[0], b[1]);
        mma_bf16(sums[i], a[1], b[2], b[3]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int choice = choices[i * 8 + 2 * t + (e & 1)], output = firstOutput + warp * 16 + g + (e >> 1) * 8;
      if (choice >= 0 && output < outputs) out[(u64)choice * outputs + output] = float_to_bf16(sums[i][e]);
    }
}
