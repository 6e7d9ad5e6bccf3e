// Fused layer kernel: everything between two attentions of a decoder for few rows. It computes o_proj and its residual
// sum, RMSNorm, gate and up with their activation, down and its residual sum, RMSNorm, and the next qkv_proj. One
// persistent block runs on each SM. Bound by the bytes of the four matrices.
// Weight copies never stop (fused-layer-weights.cuh). Between two GEMMs a warp waits only for the inputs that it
// multiplies (fused-layer-rows.cuh). With more than two rows all blocks meet at a grid barrier. Sums are taken in a
// fixed order.
// Reading a weight sets the time, so multiplying it must be cheap. Two FP8 codes become f16 in one instruction, and x
// is f16 too. INT4 codes become bytes, and so do the rows of x.
// Options: STAGES: of a warp's copies; TILES: of 16 outputs that are reduced together, an even number; ACTIVATION; and
// the options of the headers.
// Source: RMSNorm (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020), FP8 E4M3 (Micikevicius et al. 2022); PTX ISA,
// mma.sync, cp.async, griddepcontrol, ld.relaxed and ld.acquire.
#include "activation.cuh"
#include "fused-layer-weights.cuh"
#include "fused-layer-rows.cuh"

extern __shared__ __align__(16) u8 shared[];

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

#if defined(WEIGHT_INT4)
// The upper four bits of each byte, a code of which 8 means zero, as a signed byte: 16 times what the code means.
__device__ __forceinline__ u32 upper_codes(u32 word) {
  u32 codes;
  // (word & 0xf0f0f0f0) ^ 0x80808080 in one instruction, which the compiler makes two.
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(codes) : "r"(word), "r"(0xf0f0f0f0u), "r"(0x80808080u));
  return codes;
}

__device__ __forceinline__ void multiply(const u8* tile, const RowsOfX& x, int chunk, float (&sums)[4]) {
  const int lane = x.lane, g = lane >> 2, t = lane & 3;
  const uint4* codes = reinterpret_cast<const uint4*>(tile) + lane;
  // Columns after the last row are never read.
  const u8* from = x.kept + min(g, 2 * x.numRows - 1) * x.stride() + chunk * CHUNK + t * 16;
  const float* scales = x.scales + min(t, x.numRows - 1) * (x.inputs / GROUP) + chunk * (CHUNK / GROUP);
#pragma unroll
  for (int set = 0; set < CHUNK / GROUP; set++) {
    int part[4] = {};
#pragma unroll
    for (int half = 0; half < GROUP / BLOCK; half++) {
      const int n = set * (GROUP / BLOCK) + half;
      const uint4 four = codes[n * WARP];
      const uint4 b = *reinterpret_cast<const uint4*>(from + n * BLOCK);
      const u32 first[4] = {upper_codes(four.x << 4), upper_codes(four.x), upper_codes(four.y << 4), upper_codes(four.y)};
      mma_s8(part, first, b.x, b.y);
      const u32 second[4] = {upper_codes(four.z << 4), upper_codes(four.z), upper_codes(four.w << 4), upper_codes(four.w)};
      mma_s8(part, second, b.z, b.w);
    }
    const u32 pair = reinterpret_cast<const u32*>(tile + SCALES_AT)[set * 8 + g];
    // Both columns of row t.
    sums[0] += f16_to_float((u16)pair) * scales[set] * (float)(128 * part[0] + part[1]);
    sums[2] += f16_to_float((u16)(pair >> 16)) * scales[set] * (float)(128 * part[2] + part[3]);
  }
}
#else
struct Rows {
  uint4 runs[RUN / 8]; // of row g
};

// Columns after the last row are never read.
__device__ __forceinline__ Rows load_rows(const RowsOfX& x, const u16* plain, int chunk) {
  const int row = min(x.lane >> 2, x.numRows - 1), t = x.lane & 3;
  Rows rows;
#pragma unroll
  for (int i = 0; i < RUN / 8; i++) {
    const int at = chunk * CHUNK + run_place(t, i);
    rows.runs[i] = plain == nullptr ? *reinterpret_cast<const uint4*>(x.kept + row * x.stride() + at)
                                    : __ldcg(reinterpret_cast<const uint4*>(plain + (u64)row * x.inputs + at));
  }
  return rows;
}

__device__ __forceinline__ void multiply(const u8* tile, const RowsOfX& x, const Rows& rows, bool isKept, int chunk,
                                         float (&sums)[4]) {
  const int g = x.lane >> 2, t = x.lane & 3;
  uint4 low[2], high[2];
  load_lines(tile, g, t, low, high);
#if defined(X_F16)
  float part[4] = {};
#else
  float(&part)[4] = sums;
#endif
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    u32 a[4];
    fragment(low, high, step, a);
    const uint4& four = rows.runs[step >> 1];
    MULTIPLY(part, a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
  }
#if defined(X_F16)
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int row = min(2 * t + e, x.numRows - 1);
    const float scale = isKept ? x.scales[row * (x.inputs / GROUP) + chunk] : 1.f;
    sums[e] += scale * part[e];
    sums[2 + e] += scale * part[2 + e];
  }
#endif
}
#endif

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
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const Layer layer = {oProj, gateUp, down, qkvProj, oProjScales, gateUpScales, downScales, qkvProjScales,
                       attentionWidth, width, inner, outWidth};
  WeightsAhead weights(layer, shared + warp * STAGES * STAGE_BYTES, first, end);
  // Other constants: scales of this block's outputs, and norms, a line each.
#if !defined(WEIGHT_INT4)
  for (int phase = first; phase < end; phase++) {
    const Gemm p = layer.gemm(phase);
    const int unit = blockIdx.x + threadIdx.x * gridDim.x;
    if (p.scales == nullptr || unit >= p.numUnits) continue;
    prefetch(p.scales + unit * 16);
    if (phase == GATE_UP) prefetch(p.scales + inner + unit * 16);
  }
#endif
  for (int line = blockIdx.x * THREADS + threadIdx.x; line < width / 32; line += gridDim.x * THREADS) {
    if (end > GATE_UP) prefetch(innerNorm + line * 32);
    if (end > QKV_PROJ) prefetch(outNorm + line * 32);
  }
  PDL_WAIT();

  // [2, TILES, WARPS, 16, ROWS]: two batches, as one is summed up while the next begins. Behind them the squares of x.
  float* warpSums = reinterpret_cast<float*>(shared + WARPS * STAGES * STAGE_BYTES);
  float* warpSquares = warpSums + 2 * TILES * WARPS * 16 * ROWS; // [2, ROWS, WARPS]
  RowsOfX x;
  x.numRows = numRows;
  x.lane = lane;
  x.scales = warpSquares + 2 * ROWS * WARPS;
  u32* launches = barrier + 4 + blockIdx.x;
#if defined(TAGGED_ROWS)
  x.launch = *reinterpret_cast<volatile u32*>(launches) + 1;
#endif
  const int numScales = ROWS * (max(max(attentionWidth, width), inner) / GROUP);
  x.kept = reinterpret_cast<decltype(x.kept)>(x.scales + CEIL_DIV(numScales, 4) * 4);
  u64 *const middleWords = words, *const activatedWords = middleWords + ROWS * (width / 2),
             *const endWords = activatedWords + ROWS * (inner / 2);

  int parity = 0;
  const auto sums_of = [&](int tile, int ofWarp) { return warpSums + ((parity * TILES + tile) * WARPS + ofWarp) * 16 * ROWS; };
  const auto keep_sums = [&](const float (&sums)[4], int tile) {
    float* to = sums_of(tile, warp);
#if defined(WEIGHT_INT4)
    if (t >= ROWS) return;
    to[g * ROWS + t] = sums[0];
    to[(g + 8) * ROWS + t] = sums[2];
#else
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (2 * t + (e & 1) < ROWS) to[(g + (e >> 1) * 8) * ROWS + 2 * t + (e & 1)] = sums[e];
#endif
  };
  const auto scale_of = [&](const Gemm& p, int output) {
#if defined(WEIGHT_E4M3)
    return UNDO_SPREAD * p.scales[output];
#else
    return 1.f;
#endif
  };

#pragma unroll 1
  for (int phase = first; phase < end; phase++) {
    const Gemm p = layer.gemm(phase);
    const bool isAdding = phase == O_PROJ || phase == DOWN;
    const int parts = phase == GATE_UP ? 2 : 1;
    Source source;
    source.norm = phase == GATE_UP ? innerNorm : phase == QKV_PROJ ? outNorm : nullptr;
#if defined(TAGGED_ROWS)
    source.plain = attention;
    source.words = phase == O_PROJ ? nullptr : phase == GATE_UP ? middleWords : phase == DOWN ? activatedWords : endWords;
    u64* const give = phase == O_PROJ ? middleWords : phase == GATE_UP ? activatedWords : phase == DOWN ? endWords : nullptr;
#else
    source.plain = phase == O_PROJ ? attention : phase == DOWN ? activated : residual;
    source.words = nullptr;
    if (phase > first) grid_barrier(barrier, phase - 1);
    if (phase == end - 1) {
      PDL_TRIGGER();
    }
#endif
#if defined(WEIGHT_INT4)
    source.isX = false;
#elif defined(X_F16)
    source.isX = phase == DOWN;
#else
    source.isX = source.norm == nullptr;
#endif
#if defined(TAGGED_ROWS) || defined(WEIGHT_INT4)
    const bool isKept = true;
#else
    // Wide rows are loaded as they are used.
    const bool isKept = phase != DOWN;
#endif
    x.inputs = p.inputs;
    Arriving arriving;
    if (isKept && (int)blockIdx.x < p.numUnits && warp < p.numChunks) x.ask(source, warp, arriving);
    float squares[ROWS] = {};
    bool isNew = isKept;
    int count = 0; // of units whose sums wait to be added up
#pragma unroll 1
    for (int unit = blockIdx.x; unit < p.numUnits; unit += gridDim.x) {
      float sums[2][4] = {};
#pragma unroll 1
      for (int chunk = warp; chunk < p.numChunks; chunk += WARPS) {
        if (isNew) {
          x.wait(source, chunk, arriving);
          x.keep(source, chunk, arriving, squares);
          if (chunk + WARPS < p.numChunks) x.ask(source, chunk + WARPS, arriving);
#if defined(TAGGED_ROWS)
          // Rows of the last GEMM exist only if all blocks run, so the next kernel cannot take their SMs.
          if (phase == end - 1) {
      PDL_TRIGGER();
    }
#endif
        }
#if defined(WEIGHT_INT4)
        multiply(weights.next(), x, chunk, sums[0]);
        if (parts == 2) multiply(weights.next(), x, chunk, sums[1]);
#else
        const Rows rows = load_rows(x, isKept ? nullptr : source.plain, chunk);
        multiply(weights.next(), x, rows, isKept, chunk, sums[0]);
        if (parts == 2) multiply(weights.next(), x, rows, isKept, chunk, sums[1]);
#endif
      }
      if (isNew && source.norm != nullptr)
#pragma unroll
        for (int row = 0; row < ROWS; row++) squares[row] = warp_sum(squares[row]);
      isNew = false;
      keep_sums(sums[0], count * parts);
      if (parts == 2) keep_sums(sums[1], count * parts + 1);
      count += 1;
      if ((count + 1) * parts <= TILES && unit + (int)gridDim.x < p.numUnits) continue;

      // Reduces the warps' sums of `count` units.
      if (source.norm != nullptr && lane == 0)
#pragma unroll
        for (int row = 0; row < ROWS; row++) warpSquares[(parity * ROWS + row) * WARPS + warp] = squares[row];
      const int place = threadIdx.x / (16 * ROWS), within = threadIdx.x % (16 * ROWS) / ROWS, row = threadIdx.x % ROWS;
      const int output = (unit - (count - 1 - place) * (int)gridDim.x) * 16 + within;
      const bool isGiving = place < count && row < numRows;
      // Loaded while other warps arrive.
      float scale = 1.f, upScale = 1.f, addend = 0.f;
      if (isGiving) {
        scale = scale_of(p, output);
        if (phase == GATE_UP) upScale = scale_of(p, inner + output);
        if (isAdding) addend = bf16_to_float(__ldcg(residual + (u64)row * width + output));
        if (phase == QKV_PROJ && outBias != nullptr) addend = bf16_to_float(outBias[output]);
      }
      __syncthreads();
      u32 value = 0;
      if (isGiving) {
        if (source.norm != nullptr) {
          float total = 0.f;
#pragma unroll
          for (int w = 0; w < WARPS; w++) total += warpSquares[(parity * ROWS + row) * WARPS + w];
          const float inverse = rsqrtf(total / p.inputs + epsilon);
          scale *= inverse;
          upScale *= inverse;
        }
        float sum = 0.f, upSum = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += sums_of(place * parts, w)[within * ROWS + row];
        if (phase == GATE_UP) {
#pragma unroll
          for (int w = 0; w < WARPS; w++) upSum += sums_of(place * parts + 1, w)[within * ROWS + row];
          value = float_to_x(activate<ACTIVATION>(sum * scale) * (upSum * upScale));
        } else {
          value = float_to_bf16(addend + sum * scale);
        }
        if (isAdding) residual[(u64)row * width + output] = (u16)value;
        if (phase == QKV_PROJ) out[(u64)row * outWidth + output] = (u16)value;
#if !defined(TAGGED_ROWS)
        if (phase == GATE_UP) activated[(u64)row * inner + output] = (u16)value;
#endif
      }
#if defined(TAGGED_ROWS)
      const u32 other = __shfl_xor_sync(FULL_MASK, value, ROWS);
      if (isGiving && give != nullptr && (within & 1) == 0)
        put_word(give + ((u64)row * (phase == GATE_UP ? inner : width) + output) / 2, value | other << 16, x.launch);
#endif
      parity ^= 1;
      count = 0;
    }
  }
  cp_async_wait<0>();
#if defined(TAGGED_ROWS)
  __syncthreads();
  if (isWhole != 0 && threadIdx.x == 0) *launches = x.launch;
#endif
}
