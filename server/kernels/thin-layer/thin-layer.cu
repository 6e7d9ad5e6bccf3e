// All between two attentions of a decoder, for few rows, in one kernel: the projection behind attention and its sum with the
// residual stream, norm, gate and up with their activation, down and its sum, norm, and the projection before the next
// attention. One block on each multiprocessor; all meet between products. What makes it fast is that weights never wait:
// a warp copies its own ones STAGES ahead, past the end of a product into the next, so that memory works on while blocks
// meet and norms are made. Sums are taken in a fixed order.
// ROWS: rows of x at most, 1, 2, 4 or 8; STAGES; WEIGHT_E4M3 (codes with a scale a row), WEIGHT_INT4 (packed, a scale for
// 128 inputs, no zeros) or bf16; ACTIVATION.
#include "activation.cuh"
#include "thin-tile.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
#define VEC 8
// Products: behind attention, gate and up, down, before the next attention.
#define BEHIND 0
#define GATE_UP 1
#define DOWN 2
#define BEFORE 3
#define PATIENCE_NS 30000000000ull

#if defined(WEIGHT_INT4)
#undef CHUNK
#define CHUNK 256
#define GROUP 128
#define BLOCK 64
#define SCALES_AT 2048
#define STAGE_BYTES (SCALES_AT + 64)
typedef uint4 scale_t;
#else
#define STAGE_BYTES TILE_STAGE_BYTES
typedef float scale_t;
#endif

extern __shared__ __align__(16) u8 shared[];

__device__ __forceinline__ u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ u32 seen(const u32* at) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

__device__ __forceinline__ void show(u32* at, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// All blocks of the grid. meeting: how many have come, and how often all have; the first is zero before and after.
__device__ __forceinline__ void meet_grid(u32* meeting) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 round = seen(meeting + 1);
    __threadfence();
    if (atomicAdd(meeting, 1u) == gridDim.x - 1) {
      meeting[0] = 0;
      show(meeting + 1, round + 1);
    } else {
      const u64 start = nanoseconds();
      while (seen(meeting + 1) == round)
        if (nanoseconds() - start > PATIENCE_NS) __trap();
    }
    __threadfence();
  }
  __syncthreads();
}

__device__ __forceinline__ uint4 load_past_l1(const u16* at) { return __ldcg(reinterpret_cast<const uint4*>(at)); }

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
    u32* meeting,           // [2]
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
  const u32 stagesAt = shared_address(stages);
  int aheadPhase = first, aheadUnit = blockIdx.x, aheadChunk = warp, aheadPart = 0, stage = 0;
  Product aheadProduct = product_of(first);
  const auto skip_empty = [&]() {
    while (aheadPhase < end && (aheadUnit >= aheadProduct.numUnits || warp >= aheadProduct.numChunks)) {
      aheadPhase += 1;
      aheadUnit = blockIdx.x;
      aheadProduct = product_of(aheadPhase);
    }
  };
  const auto copy_ahead = [&](int to) {
    if (aheadPhase < end) {
      const u32 at = stagesAt + to * STAGE_BYTES;
      const int tile = aheadUnit + aheadPart * (inner / 16);
#if defined(WEIGHT_INT4)
      const int numBlocks = aheadProduct.inputs / BLOCK, group = tile >> 2;
#pragma unroll
      for (int n = 0; n < CHUNK / BLOCK; n++) {
        const int block = aheadChunk * (CHUNK / BLOCK) + n;
        const u64 from = (((u64)group * numBlocks + block) * 4 + (tile & 3)) * (WARP * 16) + lane * 16;
        cp_async(at + n * (WARP * 16) + lane * 16, aheadProduct.weight + from, true);
      }
      if (lane < 16) {
        // Outputs g and g + 8 of the tile, for each group of inputs.
        const int set = aheadChunk * (CHUNK / GROUP) + (lane >> 3);
        const u64 from = ((u64)set * (aheadProduct.outputs / 64) + group) * 8 + (lane & 7);
        cp_async_4(at + SCALES_AT + lane * 4, reinterpret_cast<const u32*>(aheadProduct.scales + from) + (tile & 3));
      }
#else
      const u64 rowBytes = (u64)aheadProduct.inputs * 32 / RUN;
      const int lineRow = lane >> 3, linePiece = lane & 7;
      const u8* from =
          aheadProduct.weight + (u64)(tile * 16 + lineRow) * rowBytes + (u64)aheadChunk * LINE + linePiece * 16;
#pragma unroll
      for (int i = 0; i < 4; i++) cp_async(at + line_place(lineRow, linePiece) + 4 * i * LINE, from + 4 * i * rowBytes, true);
#endif
      if (aheadPhase == GATE_UP && aheadPart == 0) {
        aheadPart = 1;
      } else {
        aheadPart = 0;
        aheadChunk += WARPS;
        if (aheadChunk >= aheadProduct.numChunks) {
          aheadChunk = warp;
          aheadUnit += gridDim.x;
          skip_empty();
        }
      }
    }
    cp_async_commit();
  };
  skip_empty();
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
  float* warpSums = reinterpret_cast<float*>(sumsAt); // [2, WARPS, 2, 16, ROWS]: two units, as one is summed up while the next begins
  float* scratch = warpSums + 2 * WARPS * 2 * 16 * ROWS; // [ROWS, WARPS]
  u16* xs = reinterpret_cast<u16*>(scratch + ROWS * WARPS);
  // Rows begin half a line apart, or 16 bytes where matrices are loaded from eight of them.
#if defined(WEIGHT_INT4)
  const auto stride_of = [](int inputs) { return inputs + 8; };
#else
  const auto stride_of = [](int inputs) { return inputs + 32; };
#endif
  const auto norm_rows = [&](const float* norm) {
    const int stride = stride_of(width), numVectors = width / VEC;
    float squares[ROWS] = {};
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
      if (row >= numRows) break;
#pragma unroll 1
      for (int at = threadIdx.x; at < numVectors; at += THREADS) {
        const uint4 four = load_past_l1(residual + (u64)row * width + at * VEC);
        *reinterpret_cast<uint4*>(xs + row * stride + at * VEC) = four;
        float values[VEC];
        unpack_elems(four, values);
#pragma unroll
        for (int i = 0; i < VEC; i++) squares[row] += values[i] * values[i];
      }
    }
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
      const float inverse = rsqrtf(sum / width + epsilon);
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
        *place = pack_elems(values);
      }
    }
    __syncthreads();
  };
#if defined(WEIGHT_INT4)
  const auto copy_rows = [&](const u16* x, int inputs) {
    const int stride = stride_of(inputs), numVectors = inputs / VEC;
    for (int row = 0; row < numRows; row++)
      for (int at = threadIdx.x; at < numVectors; at += THREADS)
        *reinterpret_cast<uint4*>(xs + row * stride + at * VEC) = load_past_l1(x + (u64)row * inputs + at * VEC);
    __syncthreads();
  };
#endif
  const auto load_x = [&](const u16* x, int stride, bool isShared, int chunk, Rows& rows) {
    const bool isThere = g < numRows;
    const u16* at = x + (u64)(isThere ? g : 0) * stride + chunk * CHUNK;
#pragma unroll
    for (int i = 0; i < RUN / 8; i++) {
      rows.runs[i] = make_uint4(0, 0, 0, 0);
      if (!isThere) continue;
      const u16* from = at + run_place(t, i);
      rows.runs[i] = isShared ? *reinterpret_cast<const uint4*>(from) : load_past_l1(from);
    }
  };

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
  const auto multiply = [&](const u8* tile, const u16* x, int stride, int chunk, float (&sums)[4]) {
    const uint4* codes = reinterpret_cast<const uint4*>(tile) + lane;
    // Rows beyond the last give columns that nobody reads.
    const u32 from = shared_address(x + min(lane & 7, numRows - 1) * stride + chunk * CHUNK) + (lane >> 3) * 16;
#pragma unroll
    for (int set = 0; set < CHUNK / GROUP; set++) {
      float part[4] = {}, rowSums[4] = {};
#pragma unroll
      for (int half = 0; half < GROUP / BLOCK; half++) {
        const int n = set * (GROUP / BLOCK) + half;
        const uint4 four = codes[n * WARP];
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
          u32 b[4];
          ldmatrix_x4(b, from + (n * 4 + pair * 2) * 32);
#pragma unroll
          for (int s = 0; s < 2; s++) {
            const u32 word = pair == 0 ? (s == 0 ? four.x : four.y) : (s == 0 ? four.z : four.w);
            const u32 ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
            mma_bf16(rowSums, ones, b[2 * s], b[2 * s + 1]);
            u32 a[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
              // (word & 0x000f000f) | 0x43004300: two codes as bf16 of 128 + code.
              asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(a[i]) : "r"(word >> (4 * i)), "r"(0x000f000fu), "r"(0x43004300u));
            mma_bf16(part, a, b[2 * s], b[2 * s + 1]);
          }
        }
      }
      const u32 scales = reinterpret_cast<const u32*>(tile + SCALES_AT)[set * 8 + g];
      const float low = f16_to_float((u16)scales), high = f16_to_float((u16)(scales >> 16));
      sums[0] += low * (part[0] - 136.f * rowSums[0]);
      sums[1] += low * (part[1] - 136.f * rowSums[1]);
      sums[2] += high * (part[2] - 136.f * rowSums[2]);
      sums[3] += high * (part[3] - 136.f * rowSums[3]);
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
      mma_bf16(sums, a, step & 1 ? four.z : four.x, step & 1 ? four.w : four.y);
    }
  };
#endif
  int parity = 0;
  // The warps' sums of a unit meet; give(output of the unit, row, sum of the first part, of the second).
  const auto join = [&](const float (&sums)[2][4], int parts, const auto& give) {
    float* unitSums = warpSums + parity * WARPS * 2 * 16 * ROWS;
    parity ^= 1;
#pragma unroll
    for (int part = 0; part < 2; part++) {
      if (part >= parts) break;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = 2 * t + (e & 1), output = g + (e >> 1) * 8;
        if (row < ROWS) unitSums[((warp * 2 + part) * 16 + output) * ROWS + row] = sums[part][e];
      }
    }
    __syncthreads();
    if (threadIdx.x < 16 * ROWS) {
      const int output = threadIdx.x / ROWS, row = threadIdx.x % ROWS;
      float total[2] = {0.f, 0.f};
#pragma unroll
      for (int part = 0; part < 2; part++) {
        if (part >= parts) break;
#pragma unroll
        for (int w = 0; w < WARPS; w++) total[part] += unitSums[((w * 2 + part) * 16 + output) * ROWS + row];
      }
      if (row < numRows) give(output, row, total[0], total[1]);
    }
  };
  const auto scaled = [&](const Product& p, int output, float sum) {
#if defined(WEIGHT_E4M3)
    return sum * UNDO_SPREAD * p.scales[output];
#else
    return sum;
#endif
  };
  const auto run_product = [&](const Product& p, const u16* x, int stride, bool isShared, int parts, const auto& give) {
#if !defined(WEIGHT_INT4)
    Rows next;
    if (warp < p.numChunks) load_x(x, stride, isShared, warp, next);
#endif
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
      join(sums, parts, [&](int output, int row, float one, float other) { give(unit * 16 + output, row, one, other); });
    }
  };
  const auto add_to_residual = [&](const Product& p, const u16* x) {
    const auto add = [&](int output, int row, float sum, float) {
      u16* at = residual + (u64)row * width + output;
      *at = float_to_bf16(bf16_to_float(__ldcg(at)) + scaled(p, output, sum));
    };
#if defined(WEIGHT_INT4)
    copy_rows(x, p.inputs);
    run_product(p, xs, stride_of(p.inputs), true, 1, add);
#else
    run_product(p, x, p.inputs, false, 1, add);
#endif
  };

  if (first <= BEHIND && end > BEHIND) {
    add_to_residual(product_of(BEHIND), attended);
    if (end > GATE_UP) meet_grid(meeting);
  }
  if (first <= GATE_UP && end > GATE_UP) {
    const Product p = product_of(GATE_UP);
    norm_rows(innerNorm);
    run_product(p, xs, stride_of(width), true, 2, [&](int output, int row, float gate, float up) {
      const float active = activate(scaled(p, output, gate)) * scaled(p, inner + output, up);
      activated[(u64)row * inner + output] = float_to_bf16(active);
    });
    if (end > DOWN) meet_grid(meeting);
  }
  if (first <= DOWN && end > DOWN) {
    add_to_residual(product_of(DOWN), activated);
    if (end > BEFORE) meet_grid(meeting);
  }
  // Not before all have met for the last time: until then no other kernel may take the place of a block.
  START_NEXT();
  if (end > BEFORE) {
    const Product p = product_of(BEFORE);
    norm_rows(outNorm);
    run_product(p, xs, stride_of(width), true, 1, [&](int output, int row, float sum, float) {
      const float bias = outBias == nullptr ? 0.f : bf16_to_float(outBias[output]);
      out[(u64)row * outWidth + output] = float_to_bf16(scaled(p, output, sum) + bias);
    });
  }
  cp_async_wait<0>();
}
