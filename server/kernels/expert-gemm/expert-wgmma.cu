// Grouped GEMM of a mixture of experts by WGMMA (sm_90a only): out[choice] = x[row of choice] . weight[expert]^T. A block
// stays on its SM and takes units of work in turn: one expert, up to ROWS of its choices, and GROUP_TILES tiles of 64
// outputs for each warp group. The producers run ahead over the ends of units. One loads weights by TMA; a second
// gathers rows of x by cp.async into the swizzled lines that WGMMA reads. Weights are the A operand, 64 outputs at a time,
// so that few choices waste little. bf16 weights are multiplied from shared memory. FP8 and MXFP4 codes become bf16 in
// registers: the activations stay bf16.
// Options: ROWS: 16, 32, 64 or 128; WARP_GROUPS; GROUP_TILES; WEIGHT_STAGES, ROW_STAGES; WEIGHT_E4M3: codes with a scale
// per row (quantize.cu, INTERLEAVED); WEIGHT_MXFP4: pack-mxfp4.ts; HAS_BIAS; GATED, ACTIVATION: out = act(first half of the
// matrix) * second half, whose tiles alternate in a warp group; LISTS_EARLY: the lists were complete before the previous
// kernel started.
// Roofline: bytes of the experts that have choices, up to about 200 choices an expert; then FLOP.
// Source: warp-specialized persistent grouped GEMM of CUTLASS 3; mixture of experts (Shazeer et al. 2017); PTX ISA,
// wgmma.mma_async, cp.async.bulk.tensor, cp.async.mbarrier.arrive, fence.proxy.async, setmaxnreg.
#include "code-fragments.cuh"
#include "tma.cuh"

constexpr bool hasBlockScales = IS_SET(WEIGHT_MXFP4), hasCodes = hasBlockScales || IS_SET(WEIGHT_E4M3);
constexpr bool isGated = IS_SET(GATED), readsListsEarly = IS_SET(LISTS_EARLY);
typedef Choose<IS_SET(WEIGHT_E4M3), InterleavedE4m3, Choose<hasBlockScales, Mxfp4Weights, Bf16Weights>> Weights;
static_assert(!isGated || GROUP_TILES % 2 == 0, "gate and up tiles come in pairs");

#define TILE 64 // matrix rows
#define TILES (WARP_GROUPS * GROUP_TILES)
#define WIDTH ((isGated ? TILES / 2 : TILES) * TILE) // outputs of a unit
#define CONSUMER_THREADS (WARP_GROUPS * 128)
#define THREADS (CONSUMER_THREADS + 128)
#define ROW_WARPS 3
#define WEIGHT_SLOT_BYTES (TILE * LINE)
#define ROW_SLOT_BYTES (ROWS * LINE)
#define PARTS (Weights::chunk / 64) // lines of x beside a line of weights, and its fragments
#define STAGING_BYTES (ROWS * LINE) // 64 results a choice
// Two consumers and the producers share 65,536 registers; one consumer has enough without.
constexpr bool movesRegisters = WARP_GROUPS == 2;
#define PRODUCER_REGISTERS 56
#define CONSUMER_REGISTERS 224

#include "expert-unit.cuh"
#include "expert-results.cuh"

extern __shared__ __align__(16) u8 shared[];

// Rings of weight tiles and of rows of x in shared memory, with a full and an empty mbarrier for each stage.
struct Pipeline {
  u32 weightsFull, weightsEmpty, rowsFull, rowsEmpty;
  u32 weightsAt, rowsAt, stagingAt;

  __device__ __forceinline__ Pipeline(const u64* barriers, u32 base)
      : weightsFull(shared_address(barriers)),
        weightsEmpty(weightsFull + 8 * WEIGHT_STAGES),
        rowsFull(weightsEmpty + 8 * WEIGHT_STAGES),
        rowsEmpty(rowsFull + 8 * ROW_STAGES),
        weightsAt(base),
        rowsAt(base + WEIGHT_STAGES * WEIGHT_SLOT_BYTES),
        stagingAt(rowsAt + ROW_STAGES * ROW_SLOT_BYTES) {}

  // By one thread. A warp of each consumer arrives at an empty barrier.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < WEIGHT_STAGES; i++) {
      mbarrier_init(weightsFull + 8 * i, 1);
      mbarrier_init(weightsEmpty + 8 * i, 4);
    }
    for (int i = 0; i < ROW_STAGES; i++) {
      mbarrier_init(rowsFull + 8 * i, ROW_WARPS * WARP);
      mbarrier_init(rowsEmpty + 8 * i, 4 * WARP_GROUPS);
    }
    fence_mbarrier_init();
  }
};

// By one warp, whose first lane copies.
__device__ __forceinline__ void produce_weights(const Pipeline& pipeline, const TensorMap& weights, const Problem& problem) {
  const u64 policy = evict_first_policy();
  const int numChunks = problem.num_chunks(), lane = threadIdx.x & 31;
  RingCursor<WEIGHT_STAGES> at = {0, 1};
  ExpertSchedule schedule = problem.schedule();
  for (int number = blockIdx.x;; number += gridDim.x) {
    const Work work(schedule.find(number));
    if (work.expert < 0) return;
    for (int chunk = 0; chunk < numChunks; chunk++) {
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        if (lane == 0) {
          const int row = work.matrix_row(problem, 0, tile);
          mbarrier_wait_parity(pipeline.weightsEmpty + 8 * at.stage, at.parity);
          mbarrier_expect_tx(pipeline.weightsFull + 8 * at.stage, WEIGHT_SLOT_BYTES);
          tma_load_2d(pipeline.weightsAt + at.stage * WEIGHT_SLOT_BYTES, weights, chunk * LINE, row,
                      pipeline.weightsFull + 8 * at.stage, policy);
        }
        at.next();
      }
    }
    __syncwarp();
  }
}

// By ROW_WARPS warps, which take four rows of x in turn, eight lanes a row. Rows behind the last choice keep old numbers:
// no result reads their sums.
__device__ __forceinline__ void produce_rows(const Pipeline& pipeline, const Problem& problem, int thread) {
  constexpr int step = 4 * ROW_WARPS;
  const int numLines = problem.num_chunks() * PARTS, rowPieces = problem.inputs / 8;
  const int lane = thread & 31, piece = lane & 7, first = 4 * (thread >> 5) + (lane >> 3);
  const u32 place = first * LINE, swizzled = ((piece ^ first) & 7) << 4;
  RingCursor<ROW_STAGES> at = {0, 1};
  ExpertSchedule schedule = problem.schedule();
  for (int number = blockIdx.x;; number += gridDim.x) {
    const Work work(schedule.find(number));
    if (work.expert < 0) return;
    constexpr u32 none = ~0u;
    u32 pieces[CEIL_DIV(ROWS, step)]; // of 16 bytes, in x
#pragma unroll
    for (int i = 0; i < CEIL_DIV(ROWS, step); i++) {
      const int row = first + i * step;
      pieces[i] = row < work.numRows ? work.choices(problem)[row] / problem.choicesPerRow * rowPieces + piece : none;
    }
    for (int line = 0; line < numLines; line++) {
      mbarrier_wait_parity(pipeline.rowsEmpty + 8 * at.stage, at.parity);
      const u32 to = pipeline.rowsAt + at.stage * ROW_SLOT_BYTES + place;
      const bool isInput = 8 * line + piece < rowPieces;
#pragma unroll
      for (int i = 0; i < CEIL_DIV(ROWS, step); i++)
        // An odd number of steps flips bit 2 of the row.
        if (pieces[i] != none)
          cp_async(to + i * step * LINE + (swizzled ^ (i % 2) << 6),
                   problem.x + 8 * (isInput ? (u64)pieces[i] + 8 * line : 0), isInput);
      cp_async_mbarrier_arrive(pipeline.rowsFull + 8 * at.stage);
      at.next();
    }
  }
}

// A warp group's way through the rings. `slot` has the first of its tiles of a chunk; those of the other group follow.
struct Consumer {
  const Pipeline& pipeline;
  RingCursor<ROW_STAGES> row = {0, 0};
  int slot, parity = 0;

  __device__ __forceinline__ Consumer(const Pipeline& of, int group) : pipeline(of), slot(group * GROUP_TILES) {}

  __device__ __forceinline__ static int after(int stage, int count) { return stage_behind<WEIGHT_STAGES>(stage, count); }
  __device__ __forceinline__ u32 wait_weights(int tile) const {
    const int stage = after(slot, tile);
    mbarrier_wait_parity(pipeline.weightsFull + 8 * stage, stage < slot ? parity ^ 1 : parity);
    return pipeline.weightsAt + stage * WEIGHT_SLOT_BYTES;
  }
  __device__ __forceinline__ u32 wait_rows() const {
    mbarrier_wait_parity(pipeline.rowsFull + 8 * row.stage, row.parity);
    fence_proxy_async();
    return pipeline.rowsAt + row.stage * ROW_SLOT_BYTES;
  }
  __device__ __forceinline__ void leave(u32 emptyBarrier) const {
    if ((threadIdx.x & 31) == 0) mbarrier_arrive(emptyBarrier);
  }
  __device__ __forceinline__ void next_chunk() {
    const int before = slot;
    slot = after(slot, TILES);
    if (slot < before) parity ^= 1;
  }

  // Weights from registers: a slot is free once its codes are there. Two sets of fragments alternate: one is filled while
  // the WGMMAs of the other run. Scales of the next chunk come while this one is multiplied.
  __device__ __forceinline__ void multiply_codes(const Problem& problem, const Work& work, int group, Sums& sums) {
    const int numChunks = problem.num_chunks();
    int stageBefore = 0;
    Fragments sets[2];
    TileScales<Weights> scales[GROUP_TILES];
    u32 tiles[GROUP_TILES];
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++) scales[tile].load(problem.stored_scales(), work.matrix_row(problem, group, tile), 0);
    for (int chunk = 0; chunk < numChunks; chunk++) {
      TileScales<Weights> here[GROUP_TILES];
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        here[tile] = scales[tile];
        scales[tile].load(problem.stored_scales(), work.matrix_row(problem, group, tile), chunk + 1);
      }
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        const u32 rows = wait_rows();
#pragma unroll
        for (int tile = 0; tile < GROUP_TILES; tile++) {
          Fragments& set = sets[(part * GROUP_TILES + tile) & 1];
          if (part == 0) tiles[tile] = wait_weights(tile);
          here[tile].fragments(tiles[tile], part, set);
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < 4; step++)
            wgmma_register_shared(sums[tile], set[step], shared_descriptor(rows + 32 * step), chunk > 0 || part > 0 || step > 0);
          wgmma_commit();
          // The WGMMAs before these have ended.
          wgmma_wait<1>();
          if (tile == 0 && (chunk > 0 || part > 0)) leave(pipeline.rowsEmpty + 8 * stageBefore);
          if (part == PARTS - 1) leave(pipeline.weightsEmpty + 8 * after(slot, tile));
        }
        stageBefore = row.stage;
        row.next();
      }
      next_chunk();
    }
    wgmma_wait<0>();
    leave(pipeline.rowsEmpty + 8 * stageBefore);
  }

  // Weights from shared memory: slots are given back when the next chunk's WGMMAs have started.
  __device__ __forceinline__ void multiply_floats(int numChunks, Sums& sums) {
    int stageBefore = 0, slotBefore = 0;
    for (int chunk = 0; chunk < numChunks; chunk++) {
      const u32 rows = wait_rows();
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        const u32 weights = wait_weights(tile);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < LINE / 32; k++)
          wgmma_shared_shared<WgmmaType::bf16>(sums[tile], shared_descriptor(weights + 32 * k),
                                               shared_descriptor(rows + 32 * k), chunk > 0 || k > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (chunk > 0) leave_chunk(slotBefore, stageBefore);
      slotBefore = slot, stageBefore = row.stage;
      row.next();
      next_chunk();
    }
    wgmma_wait<0>();
    leave_chunk(slotBefore, stageBefore);
  }

  __device__ __forceinline__ void leave_chunk(int firstSlot, int stage) const {
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++) leave(pipeline.weightsEmpty + 8 * after(firstSlot, tile));
    leave(pipeline.rowsEmpty + 8 * stage);
  }
};

__device__ __forceinline__ void consume(const Pipeline& pipeline, const Problem& problem, int* choices, int group) {
  const int numChunks = problem.num_chunks();
  Consumer consumer(pipeline, group);
  ExpertSchedule schedule = problem.schedule();
  for (int number = blockIdx.x;; number += gridDim.x) {
    const Work work(schedule.find(number));
    if (work.expert < 0) return;
    const Results results(pipeline.stagingAt, problem, work, choices, group);
    Sums sums;
    if constexpr (hasCodes)
      consumer.multiply_codes(problem, work, group, sums);
    else
      consumer.multiply_floats(numChunks, sums);
    results.store(sums);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) expert_wgmma(
    const TensorMap* weights, // [numExperts * matrixRows, inputs]
    const u16* x,             // bf16 [numChoices / choicesPerRow, inputs]
    const void* scales,       // f32 [numExperts, matrixRows] of FP8 codes; u8 [.., inputs / 32] of MXFP4
    const float* bias,        // [numExperts, matrixRows]
    const int* counts,        // [numExperts]
    const int* order,         // [numExperts, numTokens]: the choices of each expert
    u16* out,                 // bf16 [numChoices, outputs]
    int numExperts, int numTokens, int inputs, int outputs, int choicesPerRow) {
  __shared__ __align__(8) u64 barriers[2 * (WEIGHT_STAGES + ROW_STAGES)];
  __shared__ int choices[WARP_GROUPS * ROWS];
  const Problem problem = {x, scales, bias, counts, order, out, numExperts, numTokens, inputs, outputs, choicesPerRow};
  const Pipeline pipeline(barriers, shared_address(shared) + swizzle_padding(shared_address(shared)));
  if (threadIdx.x == 0) pipeline.init();
  __syncthreads();
  if constexpr (!readsListsEarly) PDL_WAIT();
  // Behind the wait of the first GEMM, so that the second may rely on the lists.
  PDL_TRIGGER();
  if (threadIdx.x >= CONSUMER_THREADS) {
    if constexpr (movesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
    const int thread = threadIdx.x - CONSUMER_THREADS;
    if (thread < WARP) {
      produce_weights(pipeline, *weights, problem);
    } else {
      if constexpr (readsListsEarly) PDL_WAIT();
      produce_rows(pipeline, problem, thread - WARP);
    }
  } else {
    if constexpr (movesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
    consume(pipeline, problem, choices, threadIdx.x >> 7);
  }
}
