// A row of logits [vocab] after the request's logits processors, with the reductions and the uniform number that
// sampling needs. One block a row.
// Source: online softmax (Milakov and Gimelshein 2018), repetition penalty (Keskar et al. 2019), integer hash lowbias32
// (https://github.com/skeeto/hash-prospector).
#pragma once
#include "elem.cuh"

#define THREADS 1024
#define WARPS (THREADS / WARP)
#define MINUS_INFINITY __uint_as_float(0xff800000u)
#define PLUS_INFINITY __uint_as_float(0x7f800000u)
#define COUNT_SEEN 0x8000u
#define COUNT_OUTPUTS 0x7fffu

#define MAX_BANNED 8

// Sampling parameters of a row; written by sample-params.ts.
struct Params {
  float inverseTemperature;
  int isGreedy;
  int topK;   // 0: all
  float topP; // 1: all
  float minP; // 0: all
  u32 seedLow, seedHigh;
  int index; // of the token in the output
  float repetitionPenalty, presencePenalty, frequencyPenalty;
  int countRow, biasRow, maskRow; // of the tables below; -1: none
  int isActive;                   // 0: a padded row
  int numBanned;
  int banned[MAX_BANNED]; // tokens that must not come
  int numTop;             // most likely tokens to tell of
};

struct Row {
  const elem_t* logits;
  u16* counts;
  const float* bias;
  const u32* mask;
  int numVectors, vocab;
  bool hasRules; // any of the tables, or banned tokens
  Params params;
};

// Elements of the vector at token `first` that are no token or no number become minus infinity.
__device__ __forceinline__ void keep_numbers(const Row& row, int first, float (&values)[ELEM_VEC]) {
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++)
    if (first + i >= row.vocab || values[i] != values[i]) values[i] = MINUS_INFINITY;
}

// Entries of the table of counts for the tokens of one vector; zeros behind the vocabulary.
__device__ __forceinline__ void load_counts(const Row& row, int first, u32 (&counts)[ELEM_VEC]) {
  if (row.vocab % ELEM_VEC == 0) {
    u32 pairs[ELEM_VEC / 2];
#pragma unroll
    for (int i = 0; i < ELEM_VEC / 4; i++) {
      const uint2 four = *(const uint2*)(row.counts + first + 4 * i);
      pairs[2 * i] = four.x, pairs[2 * i + 1] = four.y;
    }
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) counts[i] = (pairs[i / 2] >> (16 * (i % 2))) & 0xffffu;
    return;
  }
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) counts[i] = first + i < row.vocab ? row.counts[first + i] : 0;
}

__device__ __forceinline__ float penalized(const Params& asked, float score, u32 count) {
  if (count == 0) return score;
  score = score < 0.f ? score * asked.repetitionPenalty : score / asked.repetitionPenalty;
  const float outputs = (float)(count & COUNT_OUTPUTS);
  return outputs > 0.f ? score - (asked.presencePenalty + asked.frequencyPenalty * outputs) : score;
}

// From the logits of one vector to its scores by all rules, for tokens of the vocabulary.
__device__ __forceinline__ void rule_vector(const Row& row, int first, float (&scores)[ELEM_VEC]) {
  const Params& asked = row.params;
  if (row.bias != nullptr) {
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++)
      if (first + i < row.vocab) scores[i] += row.bias[first + i];
  }
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) scores[i] *= asked.inverseTemperature;
  if (row.counts != nullptr) {
    u32 counts[ELEM_VEC];
    load_counts(row, first, counts);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) scores[i] = penalized(asked, scores[i], counts[i]);
  }
#pragma unroll 1
  for (int n = 0; n < asked.numBanned; n++) {
    const int at = asked.banned[n] - first;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++)
      if (at == i) scores[i] = MINUS_INFINITY;
  }
  if (row.mask == nullptr) return;
  const u32 allowed = row.mask[first >> 5] >> (first & 31);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++)
    if (((allowed >> i) & 1u) == 0) scores[i] = MINUS_INFINITY;
}

// From the logits of one vector to its scores; what is no token or no number is minus infinity.
__device__ __forceinline__ void score_vector(const Row& row, int vector, float (&scores)[ELEM_VEC]) {
  const int first = vector * ELEM_VEC;
  if (row.hasRules) {
    rule_vector(row, first, scores);
  } else {
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) scores[i] *= row.params.inverseTemperature;
  }
  keep_numbers(row, first, scores);
}

__device__ __forceinline__ void load_scores(const Row& row, int vector, float (&scores)[ELEM_VEC]) {
  load_vec(row.logits + vector * ELEM_VEC, scores);
  score_vector(row, vector, scores);
}

// Vectors that a thread asks for before it looks at the first: one reading in flight leaves the memory idle.
#define VECTORS_AHEAD 4

// Calls `see(vector, logits)` for the vectors from `first` on, `step` apart, before `end`.
template <class See>
__device__ __forceinline__ void each_vector(const Row& row, int first, int step, int end, See see) {
  for (int base = first; base < end; base += VECTORS_AHEAD * step) {
    float logits[VECTORS_AHEAD][ELEM_VEC];
#pragma unroll
    for (int i = 0; i < VECTORS_AHEAD; i++)
      if (base + i * step < end) load_vec(row.logits + (base + i * step) * ELEM_VEC, logits[i]);
#pragma unroll
    for (int i = 0; i < VECTORS_AHEAD; i++)
      if (base + i * step < end) see(base + i * step, logits[i]);
  }
}

// Order of floats as order of whole numbers.
__device__ __forceinline__ u32 ordered(float value) {
  const u32 bits = __float_as_uint(value);
  return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

__device__ __forceinline__ float from_ordered(u32 key) {
  return __uint_as_float(key ^ ((key >> 31) ? 0x80000000u : 0xffffffffu));
}

// A larger score first, then a smaller id.
__device__ __forceinline__ u64 rank_key(float score, int id) { return ((u64)ordered(score) << 32) | (u32)~id; }

__device__ __forceinline__ u64 block_max_key(u64 key, u64* scratch /* [32] */) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    const u64 other = __shfl_xor_sync(FULL_MASK, key, offset);
    key = other > key ? other : key;
  }
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = key;
  __syncthreads();
  key = scratch[threadIdx.x & 31];
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    const u64 other = __shfl_xor_sync(FULL_MASK, key, offset);
    key = other > key ? other : key;
  }
  return key;
}

// Online softmax denominator: the sum of exp(x - largest), rescaled when `largest` grows.
struct RunningSum {
  float largest = MINUS_INFINITY, sum = 0.f;
  __device__ __forceinline__ void add(const float (&values)[ELEM_VEC]) {
    float best = largest;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) best = fmaxf(best, values[i]);
    if (!(best > MINUS_INFINITY)) return;
    if (best > largest) sum *= __expf(largest - best);
    largest = best;
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const float weight = __expf(values[i] - best);
      if (weight > 0.f) sum += weight;
    }
  }
  // Reduces over the block; every thread gets the result.
  __device__ __forceinline__ RunningSum join(float* maxScratch, float* sumScratch) const {
    RunningSum all;
    all.largest = block_max(largest, maxScratch);
    all.sum = block_sum(sum > 0.f ? sum * __expf(largest - all.largest) : 0.f, sumScratch);
    return all;
  }
};

__device__ __forceinline__ u32 mix(u32 x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Uniform in [0, 1): the same number for the same seed and index in any batch, and the same as on the CPU.
__device__ __forceinline__ float uniform_at(u32 low, u32 high, u32 index) {
  const u32 a = mix(mix(low ^ (index * 0x9e3779b1u)) ^ high);
  const u32 b = mix(mix(high ^ (index * 0x85ebca77u) ^ 0x5bd1e995u) ^ low ^ a);
  const double exact = ((double)(a >> 5) * 67108864.0 + (double)(b >> 6)) / 9007199254740992.0;
  // Rounding up to 1 would leave the range.
  return fminf((float)exact, 0.99999994f);
}
