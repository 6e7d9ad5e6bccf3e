// Takes rows [queries | keys | values] of the QKV projection apart: optional RMSNorm of each query and key head, RoPE,
// queries to `q`, keys and values to their slots of the paged KV cache. One warp a head; the heads of a warp share a
// token and its angles.
// Roofline: bytes. A launch moves 2 * numTokens * (numHeads + 2 * numKvHeads) * HEAD_DIM elements (rows in; queries,
// keys and values out) for about 3 FLOP each.
// Options: HEAD_DIM; HEAD_NORMS; KV_E4M3 or KV_F16 for the type of the cache; SUM_SCALES: rows hold unscaled sums of a
// GEMM of codes; SPLIT_K_PARTIALS: number of f32 split-K partial sums that a row consists of. TIME_PAIRS and ROW_PAIRS
// (multimodal RoPE): pairs of a head that rotate by the time and by the row; the rest rotate by the column.
// Source: RoPE (Su et al. 2021), multimodal RoPE of Qwen2-VL (Wang et al. 2024), PagedAttention (Kwon et al. 2023),
// RMSNorm (Zhang and Sennrich 2019).
#include "kv-element.cuh"

#ifndef SPLIT_K_PARTIALS
#define SPLIT_K_PARTIALS 0
#endif
#ifndef TIME_PAIRS
#define TIME_PAIRS 0
#define ROW_PAIRS 0
#endif

#define PAIRS_PER_LANE CEIL_DIV(HEAD_DIM, 128)
#define RESTS_PER_LANE CEIL_DIV(HEAD_DIM, 64)

typedef Choose<(SPLIT_K_PARTIALS > 0), float, elem_t> in_t;

__device__ __forceinline__ float2 load_two(const u16* at) {
  const u32 pair = *reinterpret_cast<const u32*>(at);
  return make_float2(bf16_low(pair), bf16_high(pair));
}
__device__ __forceinline__ float2 load_two(const float* at) { return *reinterpret_cast<const float2*>(at); }

__device__ __forceinline__ void store_two(u16* at, float2 two) {
  *reinterpret_cast<u32*>(at) = pack_bf16(two.x, two.y);
}
__device__ __forceinline__ void store_two(float* at, float2 two) { *reinterpret_cast<float2*>(at) = two; }

// The sum of partial sums that lie `partSize` apart, all loaded before they are added; 0 parts: the element.
template <int numParts, typename In>
__device__ __forceinline__ float2 load_sum(const In* at, u64 partSize) {
  if constexpr (numParts == 0) {
    return load_two(at);
  } else {
    float2 parts[numParts];
#pragma unroll
    for (int p = 0; p < numParts; p++) parts[p] = load_two(at + p * partSize);
    float2 sum = parts[0];
#pragma unroll
    for (int p = 1; p < numParts; p++) sum = make_float2(sum.x + parts[p].x, sum.y + parts[p].y);
    return sum;
  }
}

// A head in registers: the rotated pairs, (i, i + numDims / 2) for i = 2 * lane + {0, 1} + 64 * n, and the rest.
struct Head {
  float2 low[PAIRS_PER_LANE];
  float2 high[PAIRS_PER_LANE];
  float2 rest[RESTS_PER_LANE];
};

// Calls `use(register, column)` for each two elements that this lane holds.
template <typename Use>
__device__ __forceinline__ void each_two(Head& head, int numDims, Use use) {
  const int lane = threadIdx.x & 31, half = numDims / 2;
#pragma unroll
  for (int n = 0; n < PAIRS_PER_LANE; n++) {
    const int i = 2 * lane + 64 * n;
    if (i < half) {
      use(head.low[n], i);
      use(head.high[n], i + half);
    }
  }
#pragma unroll
  for (int n = 0; n < RESTS_PER_LANE; n++) {
    const int i = numDims + 2 * lane + 64 * n;
    if (i < HEAD_DIM) use(head.rest[n], i);
  }
}

__device__ __forceinline__ void normalize(Head& head, int numDims, const float* weight, float epsilon) {
  float sum = 0.f;
  each_two(head, numDims, [&](float2& two, int) { sum += two.x * two.x + two.y * two.y; });
  const float inverse = rsqrtf(warp_sum(sum) / HEAD_DIM + epsilon);
  each_two(head, numDims, [&](float2& two, int column) {
    two.x *= inverse * weight[column];
    two.y *= inverse * weight[column + 1];
  });
}

__device__ __forceinline__ void scale_head(Head& head, int numDims, const float* columnScales, float rowScale) {
  each_two(head, numDims, [&](float2& two, int column) {
    const float2 scales = *reinterpret_cast<const float2*>(columnScales + column);
    two = make_float2(two.x * (scales.x * rowScale), two.y * (scales.y * rowScale));
  });
}

// Sines and cosines of the pairs that a lane holds, times the magnitude.
struct Rotation {
  float2 sines[PAIRS_PER_LANE], cosines[PAIRS_PER_LANE];
};

// Position by which that pair rotates (multimodal RoPE has three).
__device__ __forceinline__ float position_of(const int* positions, int token, int pair) {
  if constexpr (TIME_PAIRS > 0) {
    const int axis = pair < TIME_PAIRS ? 0 : pair < TIME_PAIRS + ROW_PAIRS ? 1 : 2;
    return (float)positions[axis * gridDim.x + token];
  }
  return (float)positions[token];
}

__device__ __forceinline__ Rotation rotation_of(const int* positions, int token, const float* invFreq, int numDims,
                                                float magnitude) {
  Rotation of;
#pragma unroll
  for (int n = 0; n < PAIRS_PER_LANE; n++) {
    const int i = 2 * (threadIdx.x & 31) + 64 * n;
    if (i >= numDims / 2) continue;
    sincosf(position_of(positions, token, i) * invFreq[i], &of.sines[n].x, &of.cosines[n].x);
    sincosf(position_of(positions, token, i + 1) * invFreq[i + 1], &of.sines[n].y, &of.cosines[n].y);
    of.sines[n] = make_float2(of.sines[n].x * magnitude, of.sines[n].y * magnitude);
    of.cosines[n] = make_float2(of.cosines[n].x * magnitude, of.cosines[n].y * magnitude);
  }
  return of;
}

__device__ __forceinline__ void rotate(Head& head, int numDims, const Rotation& by) {
#pragma unroll
  for (int n = 0; n < PAIRS_PER_LANE; n++) {
    if (2 * (int)(threadIdx.x & 31) + 64 * n >= numDims / 2) continue;
    const float2 a = head.low[n], b = head.high[n], sine = by.sines[n], cosine = by.cosines[n];
    head.low[n] = make_float2(a.x * cosine.x - b.x * sine.x, a.y * cosine.y - b.y * sine.y);
    head.high[n] = make_float2(b.x * cosine.x + a.x * sine.x, b.y * cosine.y + a.y * sine.y);
  }
}

extern "C" __global__ void __launch_bounds__(256) rope_store(
    const in_t* qkv,        // [numTokens, (numHeads + 2 * numKvHeads) * HEAD_DIM]
    const int* positions,   // [numTokens]; with TIME_PAIRS [3, numTokens]
    const int* slots,       // [numTokens]; -1 stores nothing
    const float* invFreq,   // [numDims / 2]
    const float* headNorms, // [numHeads + numKvHeads, HEAD_DIM]
    elem_t* q,              // rows of qRowWidth
    kv_t* keys,             // [numSlots, numKvHeads, HEAD_DIM]
    kv_t* values,           // [numSlots, numKvHeads, HEAD_DIM]
    const float* rowScales,    // [numTokens]
    const float* columnScales, // [(numHeads + 2 * numKvHeads) * HEAD_DIM]
    int numHeads, int numKvHeads, int qRowWidth, int numDims, float magnitude, float epsilon, float inverseKeyScale,
    float inverseValueScale) {
  const int token = blockIdx.x;
  const int warp = blockIdx.y * (blockDim.x / WARP) + threadIdx.x / WARP;
  const int numWarps = gridDim.y * (blockDim.x / WARP);
  const int numAll = numHeads + 2 * numKvHeads;
  const u64 partSize = (u64)gridDim.x * numAll * HEAD_DIM;
  PDL_TRIGGER();
  // Positions and slots came with the step: no kernel writes them.
  const int slot = slots[token];
  const Rotation rotation = rotation_of(positions, token, invFreq, numDims, magnitude);
  PDL_WAIT();
  for (int number = warp; number < numAll; number += numWarps) {
    const bool isQuery = number < numHeads, isValue = number >= numHeads + numKvHeads;
    if (!isQuery && slot < 0) break;
    Head head;
    const in_t* from = qkv + ((u64)token * numAll + number) * HEAD_DIM;
    each_two(head, numDims, [&](float2& two, int column) { two = load_sum<SPLIT_K_PARTIALS>(from + column, partSize); });
    if constexpr (IS_SET(SUM_SCALES)) scale_head(head, numDims, columnScales + number * HEAD_DIM, rowScales[token]);
    if (!isValue) {
      if constexpr (IS_SET(HEAD_NORMS)) normalize(head, numDims, headNorms + number * HEAD_DIM, epsilon);
      rotate(head, numDims, rotation);
    }
    if (isQuery) {
      elem_t* to = q + (u64)token * qRowWidth + number * HEAD_DIM;
      each_two(head, numDims, [&](float2& two, int column) { store_two(to + column, two); });
      continue;
    }
    const int kvHead = number - numHeads - (isValue ? numKvHeads : 0);
    kv_t* to = (isValue ? values : keys) + ((u64)slot * numKvHeads + kvHead) * HEAD_DIM;
    const float inverse = isValue ? inverseValueScale : inverseKeyScale;
    each_two(head, numDims, [&](float2& two, int column) { store_kv_two(to + column, two, inverse); });
  }
}
