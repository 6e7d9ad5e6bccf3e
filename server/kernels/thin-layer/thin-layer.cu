// All between two attentions of a decoder, for few rows, in one kernel: the projection behind attention and its sum with the
// residual stream, norm, gate and up with their activation, down and its sum, norm, and the projection before the next
// attention. One block on each multiprocessor; all meet between products. What makes it fast is that weights never wait:
// a warp copies its own ones STAGES ahead, past the end of a product into the next, so that memory works on while blocks
// meet and norms are made. Sums are taken in a fixed order.
// What a weight costs to read must cost little to multiply. Codes of 8-bit floats become f16 in one instruction for two of
// them, and so is x. Codes of 4 bits become bytes, and each row of x is two rows of bytes, of which one is 128 times the
// other: 15 bits in all, with a scale a row.
// ROWS: rows of x at most, 1, 2, 4 or 8; STAGES; BATCH: units whose sums meet at once; WEIGHT_E4M3 (codes with a scale a
// row), WEIGHT_INT4 (packed, a scale for 128 inputs, no zeros; at most 4 rows) or bf16; ACTIVATION.
#if defined(WEIGHT_E4M3)
#define X_F16
#endif
#include "activation.cuh"
#include "meet-grid.cuh"
#include "thin-x.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
#define VEC 8
// Products: behind attention, gate and up, down, before the next attention.
#define BEHIND 0
#define GATE_UP 1
#define DOWN 2
#define BEFORE 3

#if defined(WEIGHT_INT4)
#undef CHUNK
#define CHUNK 256
#define GROUP 128
#define BLOCK 64
#define SCALES_AT 2048
#define STAGE_BYTES (SCALES_AT + 64)
// Of a row of x.
#define PARTS 2
#define LARGEST_CODE 16256.f
typedef uint4 scale_t;
#else
#define PARTS 1
#define STAGE_BYTES TILE_STAGE_BYTES
typedef float scale_t;
#endif

// Of the products.
#define COLUMNS (ROWS * PARTS)

extern __shared__ __align__(16) u8 shared[];

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

__device__ __forceinline__ uint4 load_past_l1(const u16* at) { return __ldcg(reinterpret_cast<const uint4*>(at)); }

#if defined(WEIGHT_INT4)
// The upper four bits of each byte, a code of which 8 means zero, as a signed byte: 16 times what the code means.
__device__ __forceinline__ u32 upper_codes(u32 word) { return (word & 0xf0f0f0f0u) ^ 0x80808080u; }
#endif

struct Rows {
  uint4 runs[RUN / 8];
};

struct Product {
  const u8* weight;
  const scale_t* scales;
  int numChunks, numUnits; // a unit: 16 outputs, or 16 of the gate and 16 of up
  int inputs, outputs;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) thin_layer(
    const u16* attended, // [numRows, attendedWidth]
    u16* residual,       // [numRows, width]
    u16* activated,      // [numRows, inner]
    u16* out,            // [numRows, outWidth]
    const u8* behind,    // [width, attendedWidth]
    const u8* gateUp,    // [2 * inner, width]
    const u8* down,      // [width, inner]
    const u8* before,    // [outWidth, width]
    const scale_t* behindScales, const scale_t* gateUpScales, const scale_t* downScales, const scale_t* beforeScales,
    const float* innerNorm, // [width], ahead of gate and up
    const float* outNorm,   // [width], ahead of the last product
    const u16* outBias,     // [outWidth], or null
    u32* meeting,           // [3], zeros before the first launch
    int numRows, int attendedWidth, int width, int inner, int outWidth, float epsilon, int first, int end) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const auto product_of = [&](int phase) {
    Product p;
    p.weight = phase == BEHIND ? behind : phase == GATE_UP ? gateUp : phase == DOWN ? down : before;
    p.scales = phase == BEHIND ? behindScales : phase == GATE_UP ? gateUpScales : phase == DOWN ? downScales : beforeScales;
    p.inputs = phase == BEHIND ? attendedWidth : phase == DOWN ? inner : width;
    p.outputs = phase == BEHIND || phase == DOWN ? width : phase == GATE_UP ? 2 * inner : outWidth;
    p.numChunks = p.inputs / CHUNK;
    p.numUnits = (phase == GATE_UP ? inner : p.outputs) / 16;
    return p;
  };

  // ---- weights on their way ----

  u8* stages = shared + warp * STAGES * STAGE_BYTES;
  int aheadPhase = first, aheadUnit = blockIdx.x, aheadChunk = warp, aheadPart = 0, aheadChunks = 0, stage = 0;
  // What this thread copies next, how far it is to its next chunk, and from the gate to up.
  const u8* aheadFrom = nullptr;
  u64 aheadPartStep = 0;
#if defined(WEIGHT_INT4)
  const u32 copyTo = shared_address(stages) + lane * 16, scalesTo = shared_address(stages) + SCALES_AT + lane * 4;
  const u32 aheadStep = WARPS * (CHUNK / BLOCK) * 4 * WARP * 16;
  const u32* scalesFrom = nullptr;
  u32 scalesStep = 0;
#else
  const u32 copyTo = shared_address(stages) + line_place(lane >> 3, lane & 7), aheadStep = WARPS * LINE;
  u64 aheadRows = 0; // four rows
#endif
  // To the unit that comes next, in this product or one behind it.
  const auto turn_to_unit = [&]() {
    Product p = product_of(aheadPhase);
    while (aheadPhase < end && (aheadUnit >= p.numUnits || warp >= p.numChunks)) {
      aheadPhase += 1;
      aheadUnit = blockIdx.x;
      p = product_of(aheadPhase);
    }
    aheadChunk = warp;
    aheadChunks = p.numChunks;
#if defined(WEIGHT_INT4)
    const int numBlocks = p.inputs / BLOCK, group = aheadUnit >> 2, numGroups = p.outputs / 64;
    const u64 block = (u64)group * numBlocks + warp * (CHUNK / BLOCK);
    aheadFrom = p.weight + (block * 4 + (aheadUnit & 3)) * (WARP * 16) + lane * 16;
    aheadPartStep = (u64)(inner / 64) * numBlocks * (4 * WARP * 16);
    // Outputs g and g + 8 of the tile, for each group of inputs.
    const int set = warp * (CHUNK / GROUP) + (lane >> 3 & 1);
    scalesFrom = reinterpret_cast<const u32*>(p.scales + ((u64)set * numGroups + group) * 8 + (lane & 7)) + (aheadUnit & 3);
    scalesStep = WARPS * (CHUNK / GROUP) * numGroups * 32;
#else
    const u64 rowBytes = (u64)p.inputs * 32 / RUN;
    aheadFrom = p.weight + (u64)(aheadUnit * 16 + (lane >> 3)) * rowBytes + warp * LINE + (lane & 7) * 16;
    aheadPartStep = inner * rowBytes;
    aheadRows = 4 * rowBytes;
#endif
  };
  const auto copy_ahead = [&](int to) {
    if (aheadPhase < end) {
      const u32 at = copyTo + to * STAGE_BYTES;
      const u8* from = aheadPart == 0 ? aheadFrom : aheadFrom + aheadPartStep;
#if defined(WEIGHT_INT4)
#pragma unroll
      for (int n = 0; n < CHUNK / BLOCK; n++) cp_async(at + n * (WARP * 16), from + n * (4 * WARP * 16), true);
      if (lane < 16) cp_async_4(scalesTo + to * STAGE_BYTES, aheadPart == 0 ? scalesFrom : scalesFrom + (inner / 64) * 32);
#else
#pragma unroll
      for (int i = 0; i < 4; i++) cp_async(at + 4 * i * LINE, from + i * aheadRows, true);
#endif
      if (aheadPhase == GATE_UP && aheadPart == 0) {
        aheadPart = 1;
      } else {
        aheadPart = 0;
        aheadChunk += WARPS;
        aheadFrom += aheadStep;
#if defined(WEIGHT_INT4)
        scalesFrom += scalesStep;
#endif
        if (aheadChunk >= aheadChunks) {
          aheadUnit += gridDim.x;
          turn_to_unit();
        }
      }
    }
    cp_async_commit();
  };
  turn_to_unit();
#pragma unroll
  for (int i = 0; i + 1 < STAGES; i++) copy_ahead(i);
  // What else no kernel writes: scales of this block's outputs, and norms, a line each.
#if !defined(WEIGHT_INT4)
  for (int phase = first; phase < end; phase++) {
    const Product p = product_of(phase);
    const int unit = blockIdx.x + threadIdx.x * gridDim.x;
    if (p.scales == nullptr || unit >= p.numUnits) continue;
    prefetch(p.scales + unit * 16);
    if (phase == GATE_UP) prefetch(p.scales + inner + unit * 16);
  }
#endif
  for (int line = blockIdx.x * THREADS + threadIdx.x; line < width / 32; line += gridDim.x * THREADS) {
    if (end > GATE_UP) prefetch(innerNorm + line * 32);
    if (end > BEFORE) prefetch(outNorm + line * 32);
  }
  WAIT_FOR_PREVIOUS();

  // ---- rows of x ----

  u8* sumsAt = shared + WARPS * STAGES * STAGE_BYTES;
  // [2, BATCH, WARPS, 2, 16, COLUMNS]: two batches, as one is summed up while the next begins.
  float* warpSums = reinterpret_cast<float*>(sumsAt);
  float* scratch = warpSums + 2 * BATCH * WARPS * 2 * 16 * COLUMNS; // [2, ROWS, WARPS]
#if defined(WEIGHT_INT4)
  float* xScales = scratch + 2 * ROWS * WARPS; // [ROWS], and what makes the next rows a multiple of 16 bytes
  u8* xs = reinterpret_cast<u8*>(xScales + 8); // [COLUMNS, inputs] and half a line between
  const auto stride_of = [](int inputs) { return inputs + 64; };
  // Past its norm, if there is one. Of 16 inputs in a row, thread t takes 2t, 2t + 8, 2t + 1 and 2t + 9, as the codes of
  // weights have them, and four such steps in a row.
  const auto keep_rows = [&](const u16* x, int inputs, const float* norm) {
    const int stride = stride_of(inputs), numVectors = inputs / 16;
    const auto load = [&](int row, int at, float (&values)[16]) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float eight[VEC];
        unpack_elems(load_past_l1(x + (u64)row * inputs + at * 16 + half * VEC), eight);
#pragma unroll
        for (int i = 0; i < VEC; i++) values[half * VEC + i] = eight[i];
      }
    };
    const auto weigh = [&](int at, float (&values)[16]) {
      if (norm == nullptr) return;
#pragma unroll
      for (int i = 0; i < 16; i += 4) {
        const float4 factors = *reinterpret_cast<const float4*>(norm + at * 16 + i);
        values[i] *= factors.x;
        values[i + 1] *= factors.y;
        values[i + 2] *= factors.z;
        values[i + 3] *= factors.w;
      }
    };
#pragma unroll 1
    for (int row = 0; row < numRows; row++) {
      float squares = 0.f, largest = 0.f;
#pragma unroll 1
      for (int at = threadIdx.x; at < numVectors; at += THREADS) {
        float values[16];
        load(row, at, values);
#pragma unroll
        for (int i = 0; i < 16; i++) squares += values[i] * values[i];
        weigh(at, values);
#pragma unroll
        for (int i = 0; i < 16; i++) largest = fmaxf(largest, fabsf(values[i]));
      }
      squares = warp_sum(squares);
      largest = warp_max(largest);
      if (lane == 0) {
        scratch[row * WARPS + warp] = squares;
        scratch[(ROWS + row) * WARPS + warp] = largest;
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int row = 0; row < numRows; row++) {
      const float squares = warp_sum(lane < WARPS ? scratch[row * WARPS + lane] : 0.f);
      const float largest = warp_max(lane < WARPS ? scratch[(ROWS + row) * WARPS + lane] : 0.f);
      const float inverse = norm == nullptr ? 1.f : rsqrtf(squares / inputs + epsilon);
      const float scale = fmaxf(largest * inverse / LARGEST_CODE, 1e-30f);
      if (threadIdx.x == 0) xScales[row] = scale;
      const float factor = inverse / scale;
#pragma unroll 1
      for (int at = threadIdx.x; at < numVectors; at += THREADS) {
        float values[16];
        load(row, at, values);
        weigh(at, values);
        u8* to = xs + (2 * row) * stride + (at >> 2) * BLOCK + (at & 3) * 4;
#pragma unroll
        for (int each = 0; each < 4; each++) {
          u32 high = 0, low = 0;
#pragma unroll
          for (int i = 0; i < 4; i++) {
            const int code = __float2int_rn(values[2 * each + (i >> 1) + 8 * (i & 1)] * factor);
            const int upper = (code + 64) >> 7;
            high |= (u32)(upper & 255) << (8 * i);
            low |= (u32)((code - 128 * upper) & 255) << (8 * i);
          }
          *reinterpret_cast<u32*>(to + each * 16) = high;
          *reinterpret_cast<u32*>(to + stride + each * 16) = low;
        }
      }
    }
    __syncthreads();
  };
#else
  u16* xs = reinterpret_cast<u16*>(scratch + 2 * ROWS * WARPS); // [ROWS, inputs] and half a line between
  const auto stride_of = [](int inputs) { return inputs + 32; };
  // Past its norm, if there is one.
  const auto keep_rows = [&](const u16* x, int inputs, const float* norm) {
    const int stride = stride_of(inputs), numVectors = inputs / VEC;
    float squares[ROWS] = {};
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      if (row >= numRows) break;
#pragma unroll 1
      for (int at = threadIdx.x; at < numVectors; at += THREADS) {
        const uint4 four = load_past_l1(x + (u64)row * inputs + at * VEC);
        float values[VEC];
        unpack_elems(four, values);
        *reinterpret_cast<uint4*>(xs + row * stride + at * VEC) = norm == nullptr ? pack_x(values) : four;
#pragma unroll
        for (int i = 0; i < VEC; i++) squares[row] += values[i] * values[i];
      }
    }
    if (norm != nullptr) {
#pragma unroll
      for (int row = 0; row < ROWS; row++) {
        const float sum = warp_sum(squares[row]);
        if (lane == 0) scratch[row * WARPS + warp] = sum;
      }
      __syncthreads();
#pragma unroll
      for (int row = 0; row < ROWS; row++) {
        if (row >= numRows) break;
        const float sum = warp_sum(lane < WARPS ? scratch[row * WARPS + lane] : 0.f);
        const float inverse = rsqrtf(sum / inputs + epsilon);
        // Each thread finds what it has put there itself.
#pragma unroll 1
        for (int at = threadIdx.x; at < numVectors; at += THREADS) {
          uint4* place = reinterpret_cast<uint4*>(xs + row * stride + at * VEC);
          float values[VEC];
          unpack_elems(*place, values);
#pragma unroll
          for (int i = 0; i < VEC; i += 4) {
            const float4 factors = *reinterpret_cast<const float4*>(norm + at * VEC + i);
            values[i] *= inverse * factors.x;
            values[i + 1] *= inverse * factors.y;
            values[i + 2] *= inverse * factors.z;
            values[i + 3] *= inverse * factors.w;
          }
          *place = pack_x(values);
        }
      }
    }
    __syncthreads();
  };
  const auto load_x = [&](const u16* x, int stride, bool isShared, int chunk, Rows& rows) {
    // Columns beyond the last row are ones that nobody reads.
    const u16* at = x + (u64)min(g, numRows - 1) * stride + chunk * CHUNK;
#pragma unroll
    for (int i = 0; i < RUN / 8; i++) {
      const u16* from = at + run_place(t, i);
      rows.runs[i] = isShared ? *reinterpret_cast<const uint4*>(from) : load_past_l1(from);
    }
  };
#endif

  // ---- products ----

  // The next stage; the one before it is free for what comes.
  const auto next_stage = [&]() {
    cp_async_wait<STAGES - 2>();
    __syncwarp();
    copy_ahead(stage == 0 ? STAGES - 1 : stage - 1);
    const u8* at = stages + stage * STAGE_BYTES;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    return at;
  };
#if defined(WEIGHT_INT4)
  const auto multiply = [&](const u8* tile, const u8* x, int stride, int chunk, float (&sums)[4]) {
    const uint4* codes = reinterpret_cast<const uint4*>(tile) + lane;
    // Columns beyond the last are ones that nobody reads.
    const u8* from = x + min(g, COLUMNS - 1) * stride + chunk * CHUNK + t * 16;
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
      const u32 scales = reinterpret_cast<const u32*>(tile + SCALES_AT)[set * 8 + g];
      const float low = f16_to_float((u16)scales), high = f16_to_float((u16)(scales >> 16));
      sums[0] += low * (float)part[0];
      sums[1] += low * (float)part[1];
      sums[2] += high * (float)part[2];
      sums[3] += high * (float)part[3];
    }
  };
#else
  const auto multiply = [&](const u8* tile, const Rows& rows, float (&sums)[4]) {
    uint4 low[2], high[2];
    load_lines(tile, g, t, low, high);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
      u32 a[4];
      fragment(low, high, step, a);
      const uint4& four = rows.runs[step >> 1];
      MULTIPLY(sums, a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
    }
  };
#endif
  int parity = 0;
  const auto sums_of = [&](int place) { return warpSums + (parity * BATCH + place) * WARPS * 2 * 16 * COLUMNS; };
  const auto keep_sums = [&](const float (&sums)[2][4], int parts, int place) {
    float* to = sums_of(place) + warp * 2 * 16 * COLUMNS;
#pragma unroll
    for (int part = 0; part < 2; part++) {
      if (part >= parts) break;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int column = 2 * t + (e & 1), output = g + (e >> 1) * 8;
        if (column < COLUMNS) to[(part * 16 + output) * COLUMNS + column] = sums[part][e];
      }
    }
  };
  // The warps' sums of `count` units meet: give(output, row, sum of the first part, of the second, what was ready).
  const auto join = [&](int parts, int firstUnit, int count, const auto& prepare, const auto& give) {
    const int place = threadIdx.x / (16 * ROWS), within = threadIdx.x % (16 * ROWS) / ROWS, row = threadIdx.x % ROWS;
    const int output = (firstUnit + place * (int)gridDim.x) * 16 + within;
    const bool isGiving = place < count && row < numRows;
    // On its way while the others come.
    float3 ready = make_float3(0.f, 0.f, 0.f);
    if (isGiving) ready = prepare(output, row);
    __syncthreads();
    if (isGiving) {
      float total[2] = {0.f, 0.f};
#pragma unroll
      for (int part = 0; part < 2; part++) {
        if (part >= parts) break;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
          const float* from = sums_of(place) + ((w * 2 + part) * 16 + within) * COLUMNS + row * PARTS;
#if defined(WEIGHT_INT4)
          total[part] += 128.f * from[0] + from[1];
#else
          total[part] += from[0];
#endif
        }
#if defined(WEIGHT_INT4)
        total[part] *= xScales[row] / 16.f;
#endif
      }
      give(output, row, total[0], total[1], ready);
    }
    parity ^= 1;
  };
  const auto scale_of = [&](const Product& p, int output) {
#if defined(WEIGHT_E4M3)
    return UNDO_SPREAD * p.scales[output];
#else
    return 1.f;
#endif
  };
  const auto run_product = [&](const Product& p, const auto* x, int stride, bool isShared, int parts, const auto& prepare,
                               const auto& give) {
#if !defined(WEIGHT_INT4)
    Rows next;
    if (warp < p.numChunks) load_x(x, stride, isShared, warp, next);
#endif
    int count = 0;
#pragma unroll 1
    for (int unit = blockIdx.x; unit < p.numUnits; unit += gridDim.x) {
      float sums[2][4] = {};
#pragma unroll 1
      for (int chunk = warp; chunk < p.numChunks; chunk += WARPS) {
#if defined(WEIGHT_INT4)
        multiply(next_stage(), x, stride, chunk, sums[0]);
        if (parts == 2) multiply(next_stage(), x, stride, chunk, sums[1]);
#else
        const Rows rows = next;
        load_x(x, stride, isShared, chunk + WARPS < p.numChunks ? chunk + WARPS : warp, next);
        multiply(next_stage(), rows, sums[0]);
        if (parts == 2) multiply(next_stage(), rows, sums[1]);
#endif
      }
      keep_sums(sums, parts, count);
      count += 1;
      if (count < BATCH && unit + (int)gridDim.x < p.numUnits) continue;
      join(parts, unit - (count - 1) * (int)gridDim.x, count, prepare, give);
      count = 0;
    }
  };
  const auto add_to_residual = [&](const Product& p, const u16* x, bool isKept) {
    const auto prepare = [&](int output, int row) {
      return make_float3(bf16_to_float(__ldcg(residual + (u64)row * width + output)), scale_of(p, output), 0.f);
    };
    const auto add = [&](int output, int row, float sum, float, float3 ready) {
      residual[(u64)row * width + output] = float_to_bf16(ready.x + sum * ready.y);
    };
    if (isKept) {
      keep_rows(x, p.inputs, nullptr);
      run_product(p, xs, stride_of(p.inputs), true, 1, prepare, add);
    } else {
#if !defined(WEIGHT_INT4)
      run_product(p, x, p.inputs, false, 1, prepare, add);
#endif
    }
  };

  if (first <= BEHIND && end > BEHIND) {
    add_to_residual(product_of(BEHIND), attended, true);
    if (end > GATE_UP) meet_grid(meeting, 0);
  }
  if (first <= GATE_UP && end > GATE_UP) {
    const Product p = product_of(GATE_UP);
    keep_rows(residual, width, innerNorm);
    run_product(
        p, xs, stride_of(width), true, 2,
        [&](int output, int) { return make_float3(scale_of(p, output), scale_of(p, inner + output), 0.f); },
        [&](int output, int row, float gate, float up, float3 ready) {
          activated[(u64)row * inner + output] = float_to_x(activate(gate * ready.x) * (up * ready.y));
        });
    if (end > DOWN) meet_grid(meeting, 1);
  }
  if (first <= DOWN && end > DOWN) {
#if defined(WEIGHT_INT4)
    add_to_residual(product_of(DOWN), activated, true);
#else
    // Wide rows come as they are used.
    add_to_residual(product_of(DOWN), activated, false);
#endif
    if (end > BEFORE) meet_grid(meeting, 2);
  }
  // Not before all have met for the last time: until then no other kernel may take the place of a block.
  START_NEXT();
  if (end > BEFORE) {
    const Product p = product_of(BEFORE);
    keep_rows(residual, width, outNorm);
    run_product(
        p, xs, stride_of(width), true, 1,
        [&](int output, int) {
          return make_float3(scale_of(p, output), outBias == nullptr ? 0.f : bf16_to_float(outBias[output]), 0.f);
        },
        [&](int output, int row, float sum, float, float3 ready) {
          out[(u64)row * outWidth + output] = float_to_bf16(sum * ready.x + ready.y);
        });
  }
  cp_async_wait<0>();
}
