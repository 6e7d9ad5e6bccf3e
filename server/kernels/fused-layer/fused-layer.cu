// Fused layer kernel: everything between two attentions of a decoder for few rows. It computes o_proj and its residual
// sum, RMSNorm, gate and up with their activation, down and its residual sum, RMSNorm, and the next qkv_proj. One
// persistent block runs on each SM.
// Weight copies never stop (fused-layer-weights.cuh). Between two GEMMs a warp waits only for the inputs that it
// multiplies (fused-layer-rows.cuh). With more than two rows all blocks meet at a grid barrier. Sums are taken in a
// fixed order.
// Reading a weight sets the time, so multiplying it must be cheap. Two FP8 codes become f16 in one instruction, and x
// is f16 too. INT4 codes become bytes, and so do the rows of x.
// Options: STAGES: of a warp's copies; TILES: of 16 outputs that are reduced together, an even number; ACTIVATION; and
// the options of the headers.
// Roofline: bytes of the four matrices: width * (attentionWidth + 3 * inner + outWidth) weights, for 2 * numRows FLOP
// each. A layer of Llama-3.1-8B in bf16 is 436 MB, 91 us at 4.8 TB/s.
// Source: RMSNorm (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020), FP8 E4M3 (Micikevicius et al. 2022); PTX ISA,
// mma.sync, cp.async, griddepcontrol, ld.relaxed and ld.acquire.
#include "activation.cuh"
#include "fused-layer-multiply.cuh"
#include "fused-layer-weights.cuh"

extern __shared__ __align__(16) u8 shared[];

typedef WeightsAhead<Choose<hasInt4Weights, Int4Cursor, LineCursor<Form>>> Weights;

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Scales of a block's outputs to the L2 cache.
__device__ __forceinline__ void prefetch_scales(const Layer& layer, int first, int end) {
  for (int phase = first; phase < end; phase++) {
    const Gemm p = layer.gemm(phase);
    const int unit = blockIdx.x + threadIdx.x * gridDim.x;
    if (p.scales == nullptr || unit >= p.numUnits) continue;
    prefetch(p.scales + unit * 16);
    if (phase == GATE_UP) prefetch(p.scales + layer.inner + unit * 16);
  }
}

// Norms, a line each.
__device__ __forceinline__ void prefetch_norms(const float* innerNorm, const float* outNorm, int width, int end) {
  for (int line = blockIdx.x * THREADS + threadIdx.x; line < width / 32; line += gridDim.x * THREADS) {
    if (end > GATE_UP) prefetch(innerNorm + line * 32);
    if (end > QKV_PROJ) prefetch(outNorm + line * 32);
  }
}

// Scale of an output: of FP8 codes only, because sums of INT4 codes have theirs already.
__device__ __forceinline__ float scale_of(const float* scales, int output) {
  return hasE4m3Weights ? scales[output] : 1.f;
}
__device__ __forceinline__ float scale_of(const uint4*, int) { return 1.f; }

// One of the four GEMMs: where its rows come from, and where they go.
struct Phase {
  int number;
  Gemm gemm;
  Source source;
  u64* give; // tagged words of the next phase, if any
  bool isLast;
  bool isKept; // x is kept in shared memory; else rows too wide for it are loaded as they are used

  __device__ __forceinline__ bool isAdding() const { return number == O_PROJ || number == DOWN; }
  __device__ __forceinline__ int parts() const { return number == GATE_UP ? 2 : 1; }
};

// The arguments of a launch, and the block's memory for sums.
struct Block {
  const Layer& layer;
  const u16* attention;
  u16 *residual, *activated, *out;
  const float *innerNorm, *outNorm;
  const u16* outBias;
  u64 *middleWords, *activatedWords, *endWords;
  float epsilon;
  int end, warp, lane;
  // [2, TILES, WARPS, 16, ROWS]: two batches, as one is summed up while the next begins.
  float* warpSums;
  float* warpSquares; // [2, ROWS, WARPS]
  int parity = 0;

  __device__ __forceinline__ Phase phase_of(int number) const {
    Phase phase;
    phase.number = number;
    phase.gemm = layer.gemm(number);
    phase.isLast = number == end - 1;
    Source& source = phase.source;
    source.norm = number == GATE_UP ? innerNorm : number == QKV_PROJ ? outNorm : nullptr;
    if constexpr (isTagged) {
      source.plain = attention;
      source.words = number == O_PROJ ? nullptr : number == GATE_UP ? middleWords : number == DOWN ? activatedWords : endWords;
      phase.give = number == O_PROJ ? middleWords : number == GATE_UP ? activatedWords : number == DOWN ? endWords : nullptr;
    } else {
      source.plain = number == O_PROJ ? attention : number == DOWN ? activated : residual;
      source.words = nullptr;
      phase.give = nullptr;
    }
    source.isX = hasE4m3Weights ? number == DOWN : !hasInt4Weights && source.norm == nullptr;
    phase.isKept = isTagged || hasInt4Weights || number != DOWN;
    return phase;
  }

  __device__ __forceinline__ float* sums_of(int tile, int ofWarp) const {
    return warpSums + ((parity * TILES + tile) * WARPS + ofWarp) * 16 * ROWS;
  }

  __device__ __forceinline__ void keep_sums(const float (&sums)[4], int tile) const {
    WarpGemm::keep_sums(sums_of(tile, warp), lane >> 2, lane & 3, sums);
  }

  __device__ __forceinline__ float sum_of_warps(int tile, int at) const {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += sums_of(tile, w)[at];
    return sum;
  }

  // Factor of RMSNorm of a row.
  __device__ __forceinline__ float inverse_norm(int row, int inputs) const {
    float total = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += warpSquares[(parity * ROWS + row) * WARPS + w];
    return rsqrtf(total / inputs + epsilon);
  }

  // Multiplies a unit by this warp's chunks of x. In the first unit x is new, and arrives chunk by chunk.
  __device__ __forceinline__ void multiply_unit(const Phase& phase, RowsOfX& x, Weights& weights, bool isNew,
                                                Arriving& arriving, float (&squares)[ROWS], float (&sums)[2][4]) const {
    const Source& source = phase.source;
#pragma unroll 1
    for (int chunk = warp; chunk < phase.gemm.numChunks; chunk += WARPS) {
      if (isNew) {
        if constexpr (isTagged) x.wait(source, chunk, arriving);
        x.keep(source, chunk, arriving, squares);
        if (chunk + WARPS < phase.gemm.numChunks) x.ask(source, chunk + WARPS, arriving);
        // Rows of the last GEMM exist only if all blocks run, so the next kernel cannot take their SMs.
        if (isTagged && phase.isLast) {
          PDL_TRIGGER();
        }
      }
      const WarpGemm::Rows rows = WarpGemm::load_rows(x, phase.isKept ? nullptr : source.plain, chunk);
      WarpGemm::multiply(weights.next(), x, rows, phase.isKept, chunk, sums[0]);
      if (phase.parts() == 2) WarpGemm::multiply(weights.next(), x, rows, phase.isKept, chunk, sums[1]);
    }
  }

  // Reduces the warps' sums of `count` units, of which `unit` is the last, one output and row a thread.
  __device__ __forceinline__ void reduce(const Phase& phase, const RowsOfX& x, int unit, int count,
                                         const float (&squares)[ROWS]) const {
    const Gemm& p = phase.gemm;
    const bool isNormed = phase.source.norm != nullptr;
    if (isNormed && lane == 0)
#pragma unroll
      for (int row = 0; row < ROWS; row++) warpSquares[(parity * ROWS + row) * WARPS + warp] = squares[row];
    const int place = threadIdx.x / (16 * ROWS), within = threadIdx.x % (16 * ROWS) / ROWS, row = threadIdx.x % ROWS;
    const int output = (unit - (count - 1 - place) * (int)gridDim.x) * 16 + within;
    const bool isGiving = place < count && row < x.numRows;
    // Loaded while other warps arrive.
    float scale = 1.f, upScale = 1.f, addend = 0.f;
    if (isGiving) {
      scale = scale_of(p.scales, output);
      if (phase.number == GATE_UP) upScale = scale_of(p.scales, layer.inner + output);
      if (phase.isAdding()) addend = bf16_to_float(__ldcg(residual + (u64)row * layer.width + output));
      if (phase.number == QKV_PROJ && outBias != nullptr) addend = bf16_to_float(outBias[output]);
    }
    __syncthreads();
    u32 value = 0;
    if (isGiving) {
      if (isNormed) {
        const float inverse = inverse_norm(row, p.inputs);
        scale *= inverse;
        upScale *= inverse;
      }
      const int tile = place * phase.parts(), at = within * ROWS + row;
      const float sum = sum_of_warps(tile, at);
      if (phase.number == GATE_UP) {
        const float upSum = sum_of_warps(tile + 1, at);
        value = Form::stored(activate<ACTIVATION>(sum * scale) * (upSum * upScale));
      } else {
        value = float_to_bf16(addend + sum * scale);
      }
      if (phase.isAdding()) residual[(u64)row * layer.width + output] = (u16)value;
      if (phase.number == QKV_PROJ) out[(u64)row * layer.outWidth + output] = (u16)value;
      if (!isTagged && phase.number == GATE_UP) activated[(u64)row * layer.inner + output] = (u16)value;
    }
    if constexpr (isTagged) {
      const u32 other = __shfl_xor_sync(FULL_MASK, value, ROWS);
      if (isGiving && phase.give != nullptr && (within & 1) == 0) {
        const u64 width = phase.number == GATE_UP ? layer.inner : layer.width;
        put_word(phase.give + ((u64)row * width + output) / 2, value | other << 16, x.launch);
      }
    }
  }

  __device__ __forceinline__ void run(const Phase& phase, RowsOfX& x, Weights& weights) {
    const Gemm& p = phase.gemm;
    const int parts = phase.parts();
    x.inputs = p.inputs;
    Arriving arriving;
    if (phase.isKept && (int)blockIdx.x < p.numUnits && warp < p.numChunks) x.ask(phase.source, warp, arriving);
    float squares[ROWS] = {};
    bool isNew = phase.isKept;
    int count = 0; // of units whose sums wait to be added up
#pragma unroll 1
    for (int unit = blockIdx.x; unit < p.numUnits; unit += gridDim.x) {
      float sums[2][4] = {};
      multiply_unit(phase, x, weights, isNew, arriving, squares, sums);
      if (isNew && phase.source.norm != nullptr)
#pragma unroll
        for (int row = 0; row < ROWS; row++) squares[row] = warp_sum(squares[row]);
      isNew = false;
      keep_sums(sums[0], count * parts);
      if (parts == 2) keep_sums(sums[1], count * parts + 1);
      count += 1;
      if ((count + 1) * parts <= TILES && unit + (int)gridDim.x < p.numUnits) continue;
      reduce(phase, x, unit, count, squares);
      parity ^= 1;
      count = 0;
    }
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) fused_layer(
    const u16* attention, // [numRows, attentionWidth]
    u16* residual,       // [numRows, width]
    u16* activated,      // [numRows, inner], used with grid barriers
    u16* out,            // [numRows, outWidth]
    const u8* oProj,    // [width, attentionWidth]
    const u8* gateUp,    // [2 * inner, width]
    const u8* down,      // [width, inner]
    const u8* qkvProj,    // [outWidth, width]
    const scale_t* oProjScales, const scale_t* gateUpScales, const scale_t* downScales, const scale_t* qkvProjScales,
    const float* innerNorm, // [width], ahead of gate and up
    const float* outNorm,   // [width], before the last GEMM
    const u16* outBias,     // [outWidth], or null
    u32* barrier,           // [3], and how many launches each block has seen; zeros before the first
    u64* words,             // [2 * width + inner, ROWS / 2], for tagged rows
    int numRows, int attentionWidth, int width, int inner, int outWidth, float epsilon, int isWhole, int first, int end) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const Layer layer = {oProj, gateUp, down, qkvProj, oProjScales, gateUpScales, downScales, qkvProjScales,
                       attentionWidth, width, inner, outWidth};
  Weights weights(layer, shared + warp * STAGES * STAGE_BYTES, first, end);
  // INT4 scales travel with the codes.
  if constexpr (!hasInt4Weights) prefetch_scales(layer, first, end);
  prefetch_norms(innerNorm, outNorm, width, end);
  PDL_WAIT();

  float* warpSums = reinterpret_cast<float*>(shared + WARPS * STAGES * STAGE_BYTES);
  float* warpSquares = warpSums + 2 * TILES * WARPS * 16 * ROWS;
  RowsOfX x;
  x.numRows = numRows;
  x.lane = lane;
  x.scales = warpSquares + 2 * ROWS * WARPS;
  u32* launches = barrier + 4 + blockIdx.x;
  if constexpr (isTagged) x.launch = *reinterpret_cast<volatile u32*>(launches) + 1;
  const int numScales = ROWS * (max(max(attentionWidth, width), inner) / GROUP);
  x.kept = reinterpret_cast<Form::Kept*>(x.scales + CEIL_DIV(numScales, 4) * 4);
  u64 *const middleWords = words, *const activatedWords = middleWords + ROWS * (width / 2),
             *const endWords = activatedWords + ROWS * (inner / 2);
  Block block = {layer, attention, residual, activated, out, innerNorm, outNorm, outBias, middleWords, activatedWords,
                 endWords, epsilon, end, warp, lane, warpSums, warpSquares};
#pragma unroll 1
  for (int number = first; number < end; number++) {
    const Phase phase = block.phase_of(number);
    if constexpr (!isTagged) {
      if (number > first) grid_barrier(barrier, number - 1);
      if (phase.isLast) {
        PDL_TRIGGER();
      }
    }
    block.run(phase, x, weights);
  }
  cp_async_wait<0>();
  if constexpr (isTagged) {
    __syncthreads();
    if (isWhole != 0 && threadIdx.x == 0) *launches = x.launch;
  }
}
