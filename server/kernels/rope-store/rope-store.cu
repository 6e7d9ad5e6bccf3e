// Takes rows [queries | keys | values] of the QKV projection apart: optional RMSNorm of each query and key head, RoPE,
// queries to `q`, keys and values to their slots of the paged KV cache. One warp a head; the heads of a warp share a
// token and its angles. Bound by bytes.
// Options: HEAD_DIM; HEAD_NORMS; KV_E4M3 or KV_F16 for the type of the cache; SUM_SCALES: rows hold unscaled sums of a
// GEMM of codes; SPLIT_K_PARTIALS: number of f32 split-K partial sums that a row consists of. TIME_PAIRS and ROW_PAIRS
// (multimodal RoPE): pairs of a head that rotate by the time and by the row; the rest rotate by the column.
// Source: RoPE (Su et al. 2021), multimodal RoPE of Qwen2-VL (Wang et al. 2024), PagedAttention (Kwon et al. 2023),
// RMSNorm (Zhang and Sennrich 2019).
#include "elem.cuh"

#define PAIRS_PER_LANE CEIL_DIV(HEAD_DIM, 128)
#define RESTS_PER_LANE CEIL_DIV(HEAD_DIM, 64)

#if defined(KV_E4M3)
typedef u8 kv_t;
#elif defined(KV_F16)
typedef u16 kv_t;
#else
typedef elem_t kv_t;
#endif

#if defined(SPLIT_K_PARTIALS)
typedef float in_t;
#else
typedef elem_t in_t;
#endif

__device__ __forceinline__ float2 load_two(const elem_t* at) {
#if defined(ELEM_BF16)
  const u32 pair = *reinterpret_cast<const u32*>(at);
  return make_float2(bf16_low(pair), bf16_high(pair));
#else
  return *reinterpret_cast<const float2*>(at);
#endif
}

__device__ __forceinline__ void store_two(elem_t* at, float2 two) {
#if defined(ELEM_BF16)
  *reinterpret_cast<u32*>(at) = pack_bf16(two.x, two.y);
#else
  *reinterpret_cast<float2*>(at) = two;
#endif
}

__device__ __forceinline__ void store_kv_two(kv_t* at, float2 two, float inverseScale) {
#if defined(KV_E4M3)
  *reinterpret_cast<u16*>(at) = pack_e4m3(two.x * inverseScale, two.y * inverseScale);
#elif defined(KV_F16)
  *reinterpret_cast<u32*>(at) = pack_f16(two.x, two.y);
#else
  store_two(at, two);
#endif
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

// Position by which that pair rotates (multimodal RoPE has three).
__device__ __forceinline__ float position_of(const int* positions, int token, int pair) {
#if defined(TIME_PAIRS)
  const int axis = pair < TIME_PAIRS ? 0 : pair < TIME_PAIRS + ROW_PAIRS ? 1 : 2;
  return (float)positions[axis * gridDim.x + token];
#else
  return (float)positions[token];
#endif
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
  const int token = blockIdx.x, lane = threadIdx.x & 31;
  const int warp = blockIdx.y * (blockDim.x / WARP) + threadIdx.x / WARP;
  const int numWarps = gridDim.y * (blockDim.x / WARP);
  const int numAll = numHeads + 2 * numKvHeads, half = numDims / 2;
  PDL_TRIGGER();
  // Positions and slots came with the step: no kernel writes them.
  const int slot = slots[token];
  float2 sines[PAIRS_PER_LANE], cosines[PAIRS_PER_LANE];
#pragma unroll
  for (int n = 0; n < PAIRS_PER_LANE; n++) {
    const int i = 2 * lane + 64 * n;
    if (i >= half) continue;
    sincosf(position_of(positions, token, i) * invFreq[i], &sines[n].x, &cosines[n].x);
    sincosf(position_of(positions, token, i + 1) * invFreq[i + 1], &sines[n].y, &cosines[n].y);
    sines[n] = make_float2(sines[n].x * magnitude, sines[n].y * magnitude);
    cosines[n] = make_float2(cosines[n].x * magnitude, cosines[n].y * magnitude);
  }
  PDL_WAIT();
  for (int number = warp; number < numAll; number += numWarps) {
    const bool isQuery = number < numHeads, isValue = number >= numHeads + numKvHeads;
    if (!isQuery && slot < 0) break;
    Head head;
    const in_t* from = qkv + ((u64)token * numAll + number) * HEAD_DIM;
#if defined(SPLIT_K_PARTIALS)
    const u64 partSize = (u64)gridDim.x * numAll * HEAD_DIM;
    each_two(head, numDims, [&](float2& two, int column) {
      float2 parts[SPLIT_K_PARTIALS];
#pragma unroll
      for (int p = 0; p < SPLIT_K_PARTIALS; p++) parts[p] = *reinterpret_cast<const float2*>(from + p * partSize + column);
      two = parts[0];
#pragma unroll
      for (int p = 1; p < SPLIT_K_PARTIALS; p++) two = make_float2(two.x + parts[p].x, two.y + parts[p].y);
    });
#else
    each_two(head, numDims, [&](float2& two, int column) { two = load_two(from + column); });
#endif
#if defined(SUM_SCALES)
    const float row = rowScales[token];
    const float* ofColumns = columnScales + number * HEAD_DIM;
    each_two(head, numDims, [&](float2& two, int column) {
      const float2 scales = *reinterpret_cast<const float2*>(ofColumns + column);
      two = make_float2(two.x * (scales.x * row), two.y * (scales.y * row));
    });
#endif
    if (!isValue) {
#if defined(HEAD_NORMS)
      normalize(head, numDims, headNorms + number * HEAD_DIM, epsilon);
#endif
#pragma unroll
      for (int n = 0; n < PAIRS_PER_LANE; n++) {
        if (2 * lane + 64 * n >= half) continue;
        const float2 a = head.low[n], b = head.high[n];
        head.low[n] = make_float2(a.x * cosines[n].x - b.x * sines[n].x, a.y * cosines[n].y - b.y * sines[n].y);
        head.high[n] = make_float2(b.x * cosines[n].x + a.x * sines[n].x, b.y * cosines[n].y + a.y * sines[n].y);
      }
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
