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
#include "expert-schedule.cuh"
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
#define ROW_THREADS 64
#define WEIGHT_SLOT_BYTES (TILE * LINE)
#define ROW_LINES (Weights::chunk / 64) // lines of a row of x beside a line of weights
#define ROW_SLOT_BYTES (ROW_LINES * ROWS * LINE)
#define ROW_PIECES (8 * ROW_LINES)
#define PARTS (Weights::chunk / 64) // 64 inputs of a line, as fragments
// Two consumers and the producers share 65,536 registers; one consumer has enough without.
constexpr bool movesRegisters = WARP_GROUPS == 2;
#define PRODUCER_REGISTERS 56
#define CONSUMER_REGISTERS 224

extern __shared__ __align__(16) u8 shared[];

// Sums of one warp group, as wgmma.cuh has them.
typedef float Sums[GROUP_TILES][ROWS / 2];

struct Problem {
  const u16* x;
  const void* scales;
  const float* bias;
  const int* counts;
  const int* order;
  u16* out;
  int numExperts, numTokens, inputs, outputs, choicesPerRow;

  // The last one may be shorter: TMA fills its lines with zeros.
  __device__ __forceinline__ int num_chunks() const { return CEIL_DIV(inputs, Weights::chunk); }
  __device__ __forceinline__ int matrix_rows() const { return isGated ? 2 * outputs : outputs; }
  __device__ __forceinline__ StoredScales stored_scales() const { return {scales, numExperts * matrix_rows(), inputs}; }
  __device__ __forceinline__ ExpertSchedule schedule() const {
    return ExpertSchedule(counts, numExperts, CEIL_DIV(outputs, WIDTH));
  }
};

// A unit of work: units of one expert with the same outputs follow each other, so that its weights stay in the L2 cache.
struct Work {
  int expert, first, numRows, firstOutput;

  __device__ __forceinline__ Work(const ExpertUnit& unit)
      : expert(unit.expert),
        first(unit.numTiles == 0 ? 0 : unit.inExpert % unit.numTiles * ROWS),
        numRows(min(ROWS, unit.numRows - first)),
        firstOutput(unit.numTiles == 0 ? 0 : unit.inExpert / unit.numTiles * WIDTH) {}

  __device__ __forceinline__ const int* choices(const Problem& problem) const {
    return problem.order + (u64)expert * problem.numTokens + first;
  }
  // The first row of a tile among the matrix rows of all experts.
  __device__ __forceinline__ int matrix_row(const Problem& problem, int group, int tile) const {
    return expert * problem.matrix_rows() + output_of(group, tile) + (isGated && tile % 2 == 1 ? problem.outputs : 0);
  }
  // First output of a tile of a warp group, and whether it is of the second half of a gated matrix.
  __device__ __forceinline__ int output_of(int group, int tile) const {
    return firstOutput + (isGated ? (group * GROUP_TILES + tile) / 2 : group * GROUP_TILES + tile) * TILE;
  }
};

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
      mbarrier_init(rowsFull + 8 * i, ROW_THREADS);
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

// By ROW_THREADS threads. `table` [2, ROWS] has the rows of x of two units in turn, -1 where there is none.
__device__ __forceinline__ void produce_rows(const Pipeline& pipeline, const Problem& problem, int* table, int thread) {
  const int numChunks = problem.num_chunks();
  const int piece = thread % ROW_PIECES, line = piece >> 3;
  RingCursor<ROW_STAGES> at = {0, 1};
  ExpertSchedule schedule = problem.schedule();
  int* rows = table;
  for (int number = blockIdx.x;; number += gridDim.x) {
    const Work work(schedule.find(number));
    if (work.expert < 0) return;
    for (int i = thread; i < ROWS; i += ROW_THREADS)
      rows[i] = i < work.numRows ? work.choices(problem)[i] / problem.choicesPerRow : -1;
    asm volatile("bar.sync 1, %0;" ::"n"(ROW_THREADS) : "memory");
    for (int chunk = 0; chunk < numChunks; chunk++) {
      mbarrier_wait_parity(pipeline.rowsEmpty + 8 * at.stage, at.parity);
      const u32 to = pipeline.rowsAt + at.stage * ROW_SLOT_BYTES + line * ROWS * LINE;
      const int k = chunk * Weights::chunk + piece * 8;
      const bool isInput = k < problem.inputs;
#pragma unroll 4
      for (int row = thread / ROW_PIECES; row < ROWS; row += ROW_THREADS / ROW_PIECES) {
        const int of = rows[row];
        const bool isThere = of >= 0 && isInput;
        cp_async(to + row * LINE + (((piece ^ row) & 7) << 4),
                 isThere ? problem.x + (u64)of * problem.inputs + k : problem.x, isThere);
      }
      cp_async_mbarrier_arrive(pipeline.rowsFull + 8 * at.stage);
      at.next();
    }
    rows = rows == table ? table + ROWS : table;
  }
}

// A warp group's way through the rings.
struct Consumer {
  const Pipeline& pipeline;
  RingCursor<ROW_STAGES> row = {0, 0};
  int slot, parity = 0;

  __device__ __forceinline__ Consumer(const Pipeline& of, int group) : pipeline(of), slot(group * GROUP_TILES) {}

  __device__ __forceinline__ u32 weights() const { return pipeline.weightsAt + slot * WEIGHT_SLOT_BYTES; }
  __device__ __forceinline__ void wait_weights() const { mbarrier_wait_parity(pipeline.weightsFull + 8 * slot, parity); }
  __device__ __forceinline__ void leave(u32 emptyBarrier) const {
    if ((threadIdx.x & 31) == 0) mbarrier_arrive(emptyBarrier);
  }
  __device__ __forceinline__ void skip(int count) {
    slot += count;
    if (slot >= WEIGHT_STAGES) slot -= WEIGHT_STAGES, parity ^= 1;
  }
  // Slots of the other warp groups lie between the chunks.
  __device__ __forceinline__ void next_tile(int tile) { skip(tile + 1 < GROUP_TILES ? 1 : TILES - GROUP_TILES + 1); }

  __device__ __forceinline__ u32 wait_rows() const {
    mbarrier_wait_parity(pipeline.rowsFull + 8 * row.stage, row.parity);
    fence_proxy_async();
    return pipeline.rowsAt + row.stage * ROW_SLOT_BYTES;
  }

  // Weights from registers: a slot is free once its codes are there. Two sets of fragments alternate. Scales of the next
  // chunk come while this one is multiplied.
  __device__ __forceinline__ void multiply_codes(const Problem& problem, const Work& work, int group, Sums& sums) {
    const int numChunks = problem.num_chunks();
    int stageBefore = 0;
    Fragments sets[2];
    TileScales<Weights> scales[GROUP_TILES];
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++) scales[tile].load(problem.stored_scales(), work.matrix_row(problem, group, tile), 0);
    for (int chunk = 0; chunk < numChunks; chunk++) {
      const u32 rows = wait_rows();
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        const TileScales<Weights> here = scales[tile];
        scales[tile].load(problem.stored_scales(), work.matrix_row(problem, group, tile), chunk + 1);
        wait_weights();
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
          // The WGMMAs that read this set have ended.
          wgmma_wait<1>();
          if (tile == 0 && part == 1 && chunk > 0) leave(pipeline.rowsEmpty + 8 * stageBefore);
          here.fragments(weights(), part, sets[part & 1]);
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < 4; step++)
            wgmma_register_shared(sums[tile], sets[part & 1][step], shared_descriptor(rows + part * ROWS * LINE + 32 * step),
                                  chunk > 0 || part > 0 || step > 0);
          wgmma_commit();
        }
        __syncwarp();
        leave(pipeline.weightsEmpty + 8 * slot);
        next_tile(tile);
      }
      stageBefore = row.stage;
      row.next();
    }
    wgmma_wait<0>();
    leave(pipeline.rowsEmpty + 8 * stageBefore);
  }

  // Weights from shared memory: slots are given back when the next chunk's WGMMAs have started.
  __device__ __forceinline__ void multiply_floats(int numChunks, Sums& sums) {
    int stageBefore = 0, slotBefore = 0;
    for (int chunk = 0; chunk < numChunks; chunk++) {
      const u32 rows = wait_rows();
      const int firstSlot = slot;
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile++) {
        wait_weights();
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < LINE / 32; k++)
          wgmma_shared_shared<WgmmaType::bf16>(sums[tile], shared_descriptor(weights() + 32 * k),
                                               shared_descriptor(rows + 32 * k), chunk > 0 || k > 0);
        next_tile(tile);
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (chunk > 0) leave_chunk(slotBefore, stageBefore);
      slotBefore = firstSlot, stageBefore = row.stage;
      row.next();
    }
    wgmma_wait<0>();
    leave_chunk(slotBefore, stageBefore);
  }

  __device__ __forceinline__ void leave_chunk(int firstSlot, int stage) const {
#pragma unroll
    for (int tile = 0; tile < GROUP_TILES; tile++)
      leave(pipeline.weightsEmpty + 8 * (firstSlot + tile >= WEIGHT_STAGES ? firstSlot + tile - WEIGHT_STAGES : firstSlot + tile));
    leave(pipeline.rowsEmpty + 8 * stage);
  }
};

// Writes what a thread holds of the results: row 8 * j + 2 * t + e of the tile, two outputs eight apart.
__device__ __forceinline__ void store_results(const Problem& problem, const Work& work, int group, const Sums& sums) {
  const int lane = threadIdx.x & 31, inTile = (threadIdx.x >> 5 & 3) * 16 + (lane >> 2), t = lane & 3;
  const u64 firstRow = (u64)work.expert * problem.matrix_rows();
  const auto finished = [&](float sum, int matrixRow) {
    return finish_sum(sum, Weights::factor, problem.scales, problem.bias, firstRow + matrixRow);
  };
#pragma unroll
  for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = 8 * j + 2 * t + e;
      if (row >= work.numRows) continue;
      u16* to = problem.out + (u64)work.choices(problem)[row] * problem.outputs;
#pragma unroll
      for (int tile = 0; tile < GROUP_TILES; tile += isGated ? 2 : 1)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int output = work.output_of(group, tile) + inTile + 8 * h, i = 4 * j + 2 * h + e;
          if (output >= problem.outputs) continue;
          float value = finished(sums[tile][i], output);
          if constexpr (isGated)
            value = gated_activation<ACTIVATION>(value, finished(sums[tile + 1][i], output + problem.outputs));
          to[output] = float_to_bf16(value);
        }
    }
}

__device__ __forceinline__ void consume(const Pipeline& pipeline, const Problem& problem, int group) {
  const int numChunks = problem.num_chunks();
  Consumer consumer(pipeline, group);
  ExpertSchedule schedule = problem.schedule();
  for (int number = blockIdx.x;; number += gridDim.x) {
    const Work work(schedule.find(number));
    if (work.expert < 0) return;
    Sums sums;
    if constexpr (hasCodes)
      consumer.multiply_codes(problem, work, group, sums);
    else
      consumer.multiply_floats(numChunks, sums);
    store_results(problem, work, group, sums);
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
  __shared__ int table[2 * ROWS];
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
    } else if (thread < WARP + ROW_THREADS) {
      if constexpr (readsListsEarly) PDL_WAIT();
      produce_rows(pipeline, problem, table, thread - WARP);
    }
  } else {
    if constexpr (movesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
    consume(pipeline, problem, threadIdx.x >> 7);
  }
}
