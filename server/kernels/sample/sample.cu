// Chooses one token a row: the request's rules on its logits, then the largest, or a draw after top-k, top-p and min-p.
// One block a row. Nothing depends on the order in which threads run: sums are taken in a fixed order or in whole
// numbers. ELEM_BF16 or ELEM_F32 is the type of the logits.
#include "elem.cuh"

#define THREADS 1024
#define WARPS (THREADS / WARP)
#define BINS THREADS
// The first histogram: distances to the best score in steps of 1/32; from 32 on (weights under 1e-13) all are one bin.
#define FIRST_BINS_PER_UNIT 32.f
// Three times finer by 1024 is past what a float tells apart.
#define MAX_ZOOMS 3
// Candidates that are put in order; more are drawn from without.
#define CAPACITY 2048
// Rounding at the edge of a bin may list a few more than were counted.
#define SPARE 32
#define MASS_BITS 14
#define MINUS_INFINITY __uint_as_float(0xff800000u)
#define PLUS_INFINITY __uint_as_float(0x7f800000u)
#define COUNT_SEEN 0x8000u
#define COUNT_OUTPUTS 0x7fffu

// What a request asks of its row; written by sample-params.ts.
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
  int unused;
};

struct Row {
  const elem_t* logits;
  u16* counts;
  const float* bias;
  const u32* mask;
  int numVectors, vocab;
  Params params;
};

__device__ __forceinline__ float ruled(const Row& row, float score, int id) {
  if (row.bias != nullptr) score += row.bias[id];
  score *= row.params.inverseTemperature;
  if (row.counts != nullptr) {
    const u32 count = row.counts[id];
    if (count != 0) {
      score = score < 0.f ? score * row.params.repetitionPenalty : score / row.params.repetitionPenalty;
      const float outputs = (float)(count & COUNT_OUTPUTS);
      if (outputs > 0.f) score -= row.params.presencePenalty + row.params.frequencyPenalty * outputs;
    }
  }
  if (row.mask != nullptr && ((row.mask[id >> 5] >> (id & 31)) & 1u) == 0) score = MINUS_INFINITY;
  return score;
}

// The scores of one vector; what is no token or no number is minus infinity.
__device__ __forceinline__ void load_scores(const Row& row, int vector, float (&scores)[ELEM_VEC]) {
  load_vec(row.logits + vector * ELEM_VEC, scores);
#pragma unroll
  for (int i = 0; i < ELEM_VEC; i++) {
    const int id = vector * ELEM_VEC + i;
    const float score = id < row.vocab ? ruled(row, scores[i], id) : MINUS_INFINITY;
    scores[i] = score == score ? score : MINUS_INFINITY;
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

// A sum of exp(x - largest) that goes on as larger numbers come.
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
  // Of the whole block, known to every thread.
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

struct Histogram {
  u32 counts[BINS];
  u32 high[BINS], low[BINS]; // the mass, in whole numbers of two pieces
};

__device__ __forceinline__ float inclusive_scan(float value) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const float other = __shfl_up_sync(FULL_MASK, value, offset);
    if (lane >= offset) value += other;
  }
  return value;
}

// First of n weights at which their running sum reaches `target` (passes it, when strict); n when none does. One warp.
__device__ __forceinline__ int first_reaching(const float* weights, int n, float target, bool isStrict) {
  const int lane = threadIdx.x & 31;
  float running = 0.f;
  for (int base = 0; base < n; base += WARP) {
    const int at = base + lane;
    const float sum = running + inclusive_scan(at < n ? weights[at] : 0.f);
    const u32 hits = __ballot_sync(FULL_MASK, at < n && (isStrict ? sum > target : sum >= target));
    if (hits != 0) return base + __ffs(hits) - 1;
    running = __shfl_sync(FULL_MASK, sum, 31);
  }
  return n;
}

__device__ __forceinline__ float warp_total(const float* weights, int n) {
  float running = 0.f;
  for (int base = 0; base < n; base += WARP) {
    const int at = base + (int)(threadIdx.x & 31);
    const float sum = running + inclusive_scan(at < n ? weights[at] : 0.f);
    running = __shfl_sync(FULL_MASK, sum, 31);
  }
  return running;
}

// The bin in which the wanted count or mass is reached, and what lies before and through it.
struct Cut {
  int bin;
  u32 countBefore, countThrough;
  float massBefore, massThrough;
};

struct Wanted {
  bool byCount;
  u32 count;
  float mass;
  __device__ __forceinline__ bool is_reached(u32 countSum, float massSum) const {
    return byCount ? countSum >= count : massSum >= mass;
  }
};

__device__ Cut find_cut(const Histogram& histogram, const Wanted& wanted, float* scratch /* [32] */,
                        u32* countScratch /* [32] */, Cut* shared) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 count = histogram.counts[threadIdx.x];
  const float mass = ((float)histogram.high[threadIdx.x] * (1 << MASS_BITS) + (float)histogram.low[threadIdx.x]) /
                     (float)(1 << (2 * MASS_BITS));
  u32 countSum = count;
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const u32 other = __shfl_up_sync(FULL_MASK, countSum, offset);
    if (lane >= offset) countSum += other;
  }
  float massSum = inclusive_scan(mass);
  if (lane == 31) {
    scratch[warp] = massSum;
    countScratch[warp] = countSum;
  }
  // The last bin stands in when none reaches what is wanted.
  if (threadIdx.x == 0) shared->bin = BINS - 1;
  __syncthreads();
  for (int w = 0; w < warp; w++) {
    massSum += scratch[w];
    countSum += countScratch[w];
  }
  if (wanted.is_reached(countSum, massSum)) atomicMin(&shared->bin, (int)threadIdx.x);
  __syncthreads();
  if ((int)threadIdx.x == shared->bin) {
    shared->countBefore = countSum - count;
    shared->countThrough = countSum;
    shared->massBefore = massSum - mass;
    shared->massThrough = massSum;
  }
  __syncthreads();
  return *shared;
}

// The part of distances that a histogram looks at: [start, start + BINS / perUnit), at the first look without end.
struct Window {
  float start, perUnit;
  bool isFirst;
  // -1 before the window, BINS behind it.
  __device__ __forceinline__ int bin_of(float distance) const {
    if (distance < start) return -1;
    const float bin = (distance - start) * perUnit;
    return bin < (float)BINS ? (int)bin : (isFirst ? BINS - 1 : BINS);
  }
};

// How far from the best the kept tokens reach.
struct Reach {
  Window window;
  int bin;         // kept are the bins up to this one
  bool isListable; // few enough to be put in order
  float mass;
};

__device__ __forceinline__ void fill_histogram(const Row& row, float best, const Window& window,
                                               Histogram& histogram) {
  histogram.counts[threadIdx.x] = 0;
  histogram.high[threadIdx.x] = 0;
  histogram.low[threadIdx.x] = 0;
  __syncthreads();
  for (int v = threadIdx.x; v < row.numVectors; v += THREADS) {
    float scores[ELEM_VEC];
    load_scores(row, v, scores);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const float distance = best - scores[i];
      const int bin = distance < PLUS_INFINITY ? window.bin_of(distance) : -1;
      if (bin < 0 || bin >= BINS) continue;
      const u32 whole = __float2uint_rn(__expf(-distance) * (float)(1 << (2 * MASS_BITS)));
      atomicAdd(&histogram.counts[bin], 1u);
      if (whole == 0) continue;
      atomicAdd(&histogram.high[bin], whole >> MASS_BITS);
      atomicAdd(&histogram.low[bin], whole & ((1u << MASS_BITS) - 1));
    }
  }
  __syncthreads();
}

// Looks closer at the bin that is cut until what is kept can be put in order, or a float tells no more apart: the
// tokens of the last bin then count as equal and are all kept.
__device__ Reach find_reach(const Row& row, float best, Wanted wanted, Histogram& histogram, float* scratch,
                            u32* countScratch, Cut* shared) {
  Reach reach;
  reach.window = {0.f, FIRST_BINS_PER_UNIT, true};
  u32 countBefore = 0;
  float massBefore = 0.f;
  for (int zoom = 0;; zoom++) {
    fill_histogram(row, best, reach.window, histogram);
    const Cut cut = find_cut(histogram, wanted, scratch, countScratch, shared);
    reach.bin = cut.bin;
    reach.mass = massBefore + cut.massThrough;
    reach.isListable = countBefore + cut.countThrough <= CAPACITY - SPARE;
    const bool isEndless = reach.window.isFirst && cut.bin == BINS - 1;
    if (reach.isListable || isEndless || zoom + 1 == MAX_ZOOMS) return reach;
    countBefore += cut.countBefore;
    massBefore += cut.massBefore;
    wanted.count -= min(wanted.count, cut.countBefore);
    wanted.mass -= cut.massBefore;
    const Window next = {reach.window.start + cut.bin / reach.window.perUnit, reach.window.perUnit * BINS, false};
    reach.window = next;
    __syncthreads();
  }
}

__device__ __forceinline__ void sort_falling(u64* keys, int size /* a power of 2 */) {
  for (int span = 2; span <= size; span <<= 1) {
    for (int step = span >> 1; step > 0; step >>= 1) {
      for (int i = threadIdx.x; i < size / 2; i += THREADS) {
        const int a = 2 * i - (i & (step - 1)), b = a + step;
        const bool isFalling = (a & span) == 0;
        const u64 x = keys[a], y = keys[b];
        if ((x < y) == isFalling) {
          keys[a] = y;
          keys[b] = x;
        }
      }
      __syncthreads();
    }
  }
}

// Weight of a score among those that are drawn from, 0 when it is not.
__device__ __forceinline__ float kept_weight(float score, float best, const Reach& reach, float minP) {
  const float distance = best - score;
  const float weight = __expf(-distance);
  return weight > 0.f && weight >= minP && reach.window.bin_of(distance) <= reach.bin ? weight : 0.f;
}

// A draw among the tokens within reach, in the order of ids. Each warp has a stretch of the row.
__device__ int draw_by_id(const Row& row, float best, const Reach& reach, float u, float* warpSums /* [32] */,
                          int* chosen) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float minP = row.params.minP;
  const int perWarp = CEIL_DIV(row.numVectors, WARPS), start = warp * perWarp;
  const int end = min(start + perWarp, row.numVectors);
  float sum = 0.f, scores[ELEM_VEC];
  for (int v = start + lane; v < end; v += WARP) {
    load_scores(row, v, scores);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) sum += kept_weight(scores[i], best, reach, minP);
  }
  sum = warp_sum(sum);
  if (lane == 0) warpSums[warp] = sum;
  __syncthreads();
  float total = 0.f, before = 0.f;
  int owner = -1;
  for (int w = 0; w < WARPS; w++) total += warpSums[w];
  const float target = u * total;
  float running = 0.f;
  for (int w = 0; w < WARPS; w++) {
    if (warpSums[w] <= 0.f) continue;
    if (owner >= 0 && running > target) break;
    owner = w;
    before = running;
    running += warpSums[w];
  }
  if (warp == owner) {
    float reached = before;
    int last = -1, found = -1;
    for (int base = start; base < end && found < 0; base += WARP) {
      const int v = base + lane;
      float weights[ELEM_VEC], mine = 0.f;
      int mineLast = -1;
      if (v < end) load_scores(row, v, scores);
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) {
        weights[i] = v < end ? kept_weight(scores[i], best, reach, minP) : 0.f;
        mine += weights[i];
        if (weights[i] > 0.f) mineLast = v * ELEM_VEC + i;
      }
      const float sums = reached + inclusive_scan(mine);
      const u32 hits = __ballot_sync(FULL_MASK, mine > 0.f && sums > target);
      if (hits != 0) {
        const int hit = __ffs(hits) - 1;
        float upTo = sums - mine;
        int id = mineLast;
#pragma unroll
        for (int i = ELEM_VEC - 1; i >= 0; i--) {
          float through = upTo;
          for (int j = 0; j <= i; j++) through += weights[j];
          if (weights[i] > 0.f && through > target) id = v * ELEM_VEC + i;
        }
        found = __shfl_sync(FULL_MASK, id, hit);
      }
      reached = __shfl_sync(FULL_MASK, sums, 31);
#pragma unroll
      for (int offset = 16; offset > 0; offset >>= 1) mineLast = max(mineLast, __shfl_xor_sync(FULL_MASK, mineLast, offset));
      last = max(last, mineLast);
    }
    // Rounding left the target at the very end: the last that can come at all.
    if (lane == 0) *chosen = found >= 0 ? found : last;
  }
  __syncthreads();
  return *chosen;
}

union Scratch {
  Histogram histogram;
  struct {
    u64 keys[CAPACITY];
    float weights[CAPACITY];
  } list;
};

extern "C" __global__ void __launch_bounds__(THREADS) sample(
    const elem_t* logits,   // [numRows, rowStride], rowStride a multiple of ELEM_VEC, what lies behind vocab is ignored
    const Params* params,   // [numRows]
    u16* countTable,        // [.., vocab]: 0x8000 for a token that was seen, plus how often it was put out
    const float* biasTable, // [.., vocab]
    const u32* maskTable,   // [.., ceil(vocab / 32)]: a bit a token, 1 = allowed
    int* tokens,            // [numRows]; -1: the row holds no number to choose by
    float* logProbs,        // [numRows], under the model's own distribution
    int rowStride, int vocab) {
  __shared__ Scratch scratch;
  __shared__ float floats[4][32];
  __shared__ u64 keyScratch[32];
  __shared__ u32 countScratch[32];
  __shared__ Cut cutShared;
  __shared__ int numListed, chosenShared;
  START_NEXT();
  WAIT_FOR_PREVIOUS();
  Row row;
  row.params = params[blockIdx.x];
  const Params& asked = row.params;
  if (!asked.isActive) {
    if (threadIdx.x == 0) {
      tokens[blockIdx.x] = -1;
      logProbs[blockIdx.x] = 0.f;
    }
    return;
  }
  row.logits = logits + (u64)blockIdx.x * rowStride;
  row.counts = asked.countRow < 0 ? nullptr : countTable + (u64)asked.countRow * vocab;
  row.bias = asked.biasRow < 0 ? nullptr : biasTable + (u64)asked.biasRow * vocab;
  row.mask = asked.maskRow < 0 ? nullptr : maskTable + (u64)asked.maskRow * CEIL_DIV(vocab, 32);
  row.numVectors = CEIL_DIV(vocab, ELEM_VEC);
  row.vocab = vocab;
  const bool hasRules = row.counts != nullptr || row.bias != nullptr || row.mask != nullptr;

  // One reading for the best score, the weight of all, and the model's own distribution.
  RunningSum raw, mass;
  float bestScore = MINUS_INFINITY;
  int bestId = -1;
  for (int v = threadIdx.x; v < row.numVectors; v += THREADS) {
    float values[ELEM_VEC];
    load_vec(row.logits + v * ELEM_VEC, values);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const bool isNumber = v * ELEM_VEC + i < vocab && values[i] == values[i];
      values[i] = isNumber ? values[i] : MINUS_INFINITY;
    }
    raw.add(values);
    if (hasRules) load_scores(row, v, values);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      if (!hasRules) values[i] *= asked.inverseTemperature;
      if (values[i] > bestScore) {
        bestScore = values[i];
        bestId = v * ELEM_VEC + i;
      }
    }
    if (!asked.isGreedy) mass.add(values);
  }
  const u64 bestKey = block_max_key(bestId < 0 ? 0 : rank_key(bestScore, bestId), keyScratch);
  const RunningSum rawAll = raw.join(floats[0], floats[1]);
  const float best = from_ordered((u32)(bestKey >> 32));
  int token = bestKey == 0 ? -1 : (int)~(u32)bestKey;

  if (!asked.isGreedy && token >= 0 && best < PLUS_INFINITY) {
    const RunningSum massAll = mass.join(floats[2], floats[3]);
    const float u = uniform_at(asked.seedLow, asked.seedHigh, (u32)asked.index);
    const bool limitsCount = asked.topK > 0 && asked.topK < vocab, limitsMass = asked.topP > 0.f && asked.topP < 1.f;
    // Without limits all are within reach.
    Reach reach = {{0.f, FIRST_BINS_PER_UNIT, true}, BINS - 1, false, massAll.sum};
    if (limitsCount || limitsMass) {
      const Wanted wanted = {limitsCount, (u32)asked.topK, asked.topP * massAll.sum};
      reach = find_reach(row, best, wanted, scratch.histogram, floats[0], countScratch, &cutShared);
      if (limitsCount && limitsMass && !reach.isListable) {
        // The mass that top-p speaks of is that of the k best.
        const Wanted heavy = {false, 0, asked.topP * reach.mass};
        __syncthreads();
        reach = find_reach(row, best, heavy, scratch.histogram, floats[0], countScratch, &cutShared);
        reach.isListable = false;
      }
    }
    __syncthreads();
    if (reach.isListable) {
      if (threadIdx.x == 0) numListed = 0;
      __syncthreads();
      for (int v = threadIdx.x; v < row.numVectors; v += THREADS) {
        float scores[ELEM_VEC];
        load_scores(row, v, scores);
#pragma unroll
        for (int i = 0; i < ELEM_VEC; i++) {
          const float distance = best - scores[i];
          if (!(distance < PLUS_INFINITY) || reach.window.bin_of(distance) > reach.bin) continue;
          const int at = atomicAdd(&numListed, 1);
          if (at < CAPACITY) scratch.list.keys[at] = rank_key(scores[i], v * ELEM_VEC + i);
        }
      }
      __syncthreads();
      const int numAll = min(numListed, CAPACITY);
      int size = 2;
      while (size < numAll) size *= 2;
      for (int i = numAll + threadIdx.x; i < size; i += THREADS) scratch.list.keys[i] = 0;
      __syncthreads();
      sort_falling(scratch.list.keys, size);
      for (int i = threadIdx.x; i < numAll; i += THREADS)
        scratch.list.weights[i] = __expf(from_ordered((u32)(scratch.list.keys[i] >> 32)) - best);
      __syncthreads();
      if (threadIdx.x < WARP) {
        const float* weights = scratch.list.weights;
        int count = limitsCount ? min(numAll, asked.topK) : numAll;
        if (limitsMass) {
          const float all = limitsCount ? warp_total(weights, count) : massAll.sum;
          count = min(count, first_reaching(weights, count, asked.topP * all, false) + 1);
        }
        // Weights fall, so that those under min-p are at the end.
        while (count > 1 && weights[count - 1] < asked.minP) count--;
        int at = first_reaching(weights, count, u * warp_total(weights, count), true);
        if (at >= count) {
          at = count - 1;
          while (at > 0 && !(weights[at] > 0.f)) at--;
        }
        if (threadIdx.x == 0) chosenShared = (int)~(u32)scratch.list.keys[at];
      }
      __syncthreads();
      token = chosenShared;
    } else {
      token = draw_by_id(row, best, reach, u, floats[1], &chosenShared);
    }
  }
  if (threadIdx.x != 0) return;
  tokens[blockIdx.x] = token;
  logProbs[blockIdx.x] = 0.f;
  if (token < 0) return;
  const float logit = elem_to_float(row.logits[token]);
  logProbs[blockIdx.x] = logit == PLUS_INFINITY ? 0.f : logit - rawAll.largest - logf(rawAll.sum);
  if (row.counts != nullptr) {
    const u32 outputs = row.counts[token] & COUNT_OUTPUTS;
    row.counts[token] = (u16)(COUNT_SEEN | (outputs < COUNT_OUTPUTS ? outputs + 1 : outputs));
  }
}
