// Finds the last token that top-k and top-p keep. A histogram of distances to the best score holds counts and masses in
// integers, so that results do not depend on thread order. It spans the scores of the row, so that flat and peaked rows
// fill its bins alike. The bin of the cut is sorted, or divided again. Bound by the bytes of the logits: one reading for
// each histogram and one for the bin.
// Source: top-k (Fan et al. 2018), nucleus sampling (Holtzman et al. 2019), radix selection (Alabi et al. 2012).
#pragma once
#include "sample-row.cuh"

#define BINS THREADS
// Distances from here on weigh under 1e-13 of the best: one bin without end holds them.
#define MAX_DISTANCE 32.f
// Two times finer by 1024 is past what a float tells apart.
#define MAX_ZOOMS 3
// Candidates that are put in order; more are drawn from without.
#define CAPACITY 2048
// Rounding at the edge of a bin may list a few more than were counted.
#define SPARE 32
#define MASS_BITS 14
// Lanes of a warp that add to one bin together: fewer are as fast one by one.
#define MIN_SHARING 6
#define MAX_SHARED_BINS 4

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

// The bin in which the wanted count or mass is reached, with the total before it and through it.
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

__device__ __noinline__ Cut find_cut(const Histogram& histogram, const Wanted& wanted, float* scratch /* [32] */,
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
  // -1 before the window, BINS after it.
  __device__ __forceinline__ int bin_of(float distance) const {
    if (distance < start) return -1;
    const float bin = (distance - start) * perUnit;
    return bin < (float)BINS ? (int)bin : (isFirst ? BINS - 1 : BINS);
  }
};

// How far from the best the kept tokens reach.
struct Reach {
  Window window;
  int bin;         // kept are at most the bins up to this one
  bool isListable; // few enough to be put in order
  u64 lastKey;     // rank key of the last that is kept; 0: all are
  float mass;
};

// Candidates in order: rank keys that fall, and the weights of their scores.
struct List {
  u64 keys[CAPACITY];
  float weights[CAPACITY];
};

union Scratch {
  Histogram histogram;
  List list;
};

struct ReachShared {
  float sums[32];
  u32 counts[32];
  Cut cut;
  int numListed;
  u64 key;
  float mass;
};

// Adds one score for each lane, -1 for none. Flat rows have all scores in few bins, whose additions would wait for each
// other: lanes that share a bin add once. The whole warp takes part.
__device__ __forceinline__ void add_to_bins(Histogram& histogram, int bin, u32 whole) {
  const int lane = threadIdx.x & 31;
  u32 pending = __ballot_sync(FULL_MASK, bin >= 0);
  for (int i = 0; i < MAX_SHARED_BINS && pending != 0; i++) {
    const int first = __ffs(pending) - 1;
    const bool isMine = bin == __shfl_sync(FULL_MASK, bin, first);
    const u32 peers = __ballot_sync(FULL_MASK, isMine);
    if (__popc(peers) < MIN_SHARING) break;
    const int shared = bin;
    const u32 high = __reduce_add_sync(FULL_MASK, isMine ? whole >> MASS_BITS : 0u);
    const u32 low = __reduce_add_sync(FULL_MASK, isMine ? whole & ((1u << MASS_BITS) - 1) : 0u);
    if (lane == first) {
      atomicAdd(&histogram.counts[shared], (u32)__popc(peers));
      atomicAdd(&histogram.high[shared], high);
      atomicAdd(&histogram.low[shared], low);
    }
    if (isMine) bin = -1;
    pending &= ~peers;
  }
  if (bin < 0) return;
  atomicAdd(&histogram.counts[bin], 1u);
  if (whole == 0) return;
  atomicAdd(&histogram.high[bin], whole >> MASS_BITS);
  atomicAdd(&histogram.low[bin], whole & ((1u << MASS_BITS) - 1));
}

__device__ __noinline__ void fill_histogram(const Row& row, float best, const Window& window, Histogram& histogram) {
  histogram.counts[threadIdx.x] = 0;
  histogram.high[threadIdx.x] = 0;
  histogram.low[threadIdx.x] = 0;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  for (int base = threadIdx.x; base - lane < row.numVectors; base += VECTORS_AHEAD * THREADS) {
    float scores[VECTORS_AHEAD][ELEM_VEC];
#pragma unroll
    for (int j = 0; j < VECTORS_AHEAD; j++)
      if (base + j * THREADS < row.numVectors) load_vec(row.logits + (base + j * THREADS) * ELEM_VEC, scores[j]);
#pragma unroll
    for (int j = 0; j < VECTORS_AHEAD; j++) {
      const int v = base + j * THREADS;
      if (v - lane >= row.numVectors) break; // for the whole warp
      if (v < row.numVectors) score_vector(row, v, scores[j]);
#pragma unroll
      for (int i = 0; i < ELEM_VEC; i++) {
        const float distance = v < row.numVectors ? best - scores[j][i] : PLUS_INFINITY;
        const int bin = distance < PLUS_INFINITY ? window.bin_of(distance) : -1;
        const u32 whole = __float2uint_rn(__expf(-distance) * (float)(1 << (2 * MASS_BITS)));
        add_to_bins(histogram, bin < BINS ? bin : -1, whole);
      }
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void bitonic_sort_descending(u64* keys, int size /* a power of 2 */) {
  for (int span = 2; span <= size; span <<= 1) {
    for (int step = span >> 1; step > 0; step >>= 1) {
      for (int i = threadIdx.x; i < size / 2; i += THREADS) {
        const int a = 2 * i - (i & (step - 1)), b = a + step;
        const bool isDescending = (a & span) == 0;
        const u64 x = keys[a], y = keys[b];
        if ((x < y) == isDescending) {
          keys[a] = y;
          keys[b] = x;
        }
      }
      __syncthreads();
    }
  }
}

// Puts the tokens of bins [firstBin, lastBin] in order; gives their number. The list takes the place of the histogram.
__device__ __noinline__ int list_bins(const Row& row, float best, const Window& window, int firstBin, int lastBin, List& list,
                         int* numListed) {
  if (threadIdx.x == 0) *numListed = 0;
  __syncthreads();
  each_vector(row, threadIdx.x, THREADS, row.numVectors, [&](int v, float(&scores)[ELEM_VEC]) {
    score_vector(row, v, scores);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const float distance = best - scores[i];
      const int bin = distance < PLUS_INFINITY ? window.bin_of(distance) : -1;
      if (bin < firstBin || bin > lastBin) continue;
      const int at = atomicAdd(numListed, 1);
      if (at < CAPACITY) list.keys[at] = rank_key(scores[i], v * ELEM_VEC + i);
    }
  });
  __syncthreads();
  const int count = min(*numListed, CAPACITY);
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += THREADS) list.keys[i] = 0;
  __syncthreads();
  bitonic_sort_descending(list.keys, size);
  for (int i = threadIdx.x; i < count; i += THREADS)
    list.weights[i] = __expf(from_ordered((u32)(list.keys[i] >> 32)) - best);
  __syncthreads();
  return count;
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

// The last kept token of the bin that is cut: `wanted` is what that bin still has to give.
__device__ __noinline__ void cut_in_bin(const Row& row, float best, const Wanted& wanted, float massBefore, Reach& reach, List& list,
                           ReachShared& shared) {
  const int count = list_bins(row, best, reach.window, reach.bin, reach.bin, list, &shared.numListed);
  if (threadIdx.x < WARP) {
    int last = wanted.byCount ? (int)wanted.count - 1 : first_reaching(list.weights, count, wanted.mass, false);
    last = min(max(last, 0), count - 1);
    const float mass = warp_total(list.weights, last + 1);
    if (threadIdx.x == 0) {
      shared.key = count > 0 ? list.keys[last] : 0;
      shared.mass = massBefore + mass;
    }
  }
  __syncthreads();
  reach.lastKey = shared.key;
  reach.mass = shared.mass;
}

// Rank key of the last kept token where all of them can be put in order.
__device__ __noinline__ u64 listed_key(const Row& row, float best, const Wanted& wanted, Reach reach, List& list,
                          ReachShared& shared) {
  const int count = list_bins(row, best, reach.window, 0, reach.bin, list, &shared.numListed);
  if (threadIdx.x < WARP) {
    const int last = min(first_reaching(list.weights, count, wanted.mass, false), count - 1);
    if (threadIdx.x == 0) shared.key = list.keys[max(last, 0)];
  }
  __syncthreads();
  return shared.key;
}

// More tokens than can be put in order have nearly equal scores: all of their bin are kept.
__device__ __noinline__ void keep_bin(const Row& row, float best, Reach& reach, ReachShared& shared) {
  float lowest = PLUS_INFINITY;
  each_vector(row, threadIdx.x, THREADS, row.numVectors, [&](int v, float(&scores)[ELEM_VEC]) {
    score_vector(row, v, scores);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const float distance = best - scores[i];
      const bool isIn = distance < PLUS_INFINITY && reach.window.bin_of(distance) <= reach.bin;
      if (isIn) lowest = fminf(lowest, scores[i]);
    }
  });
  lowest = -block_max(-lowest, shared.sums);
  reach.lastKey = (u64)ordered(lowest) << 32;
}

// Looks closer at the bin that is cut until its tokens can be put in order, or a float tells no more apart.
__device__ __noinline__ Reach find_reach(const Row& row, float best, float range, Wanted wanted, Scratch& scratch,
                            ReachShared& shared) {
  Reach reach;
  const float width = fminf(fmaxf(range * 1.0001f, 1e-6f), MAX_DISTANCE);
  reach.window = {0.f, (float)BINS / width, true};
  reach.lastKey = 0;
  u32 countBefore = 0;
  float massBefore = 0.f;
  for (int zoom = 0;; zoom++) {
    fill_histogram(row, best, reach.window, scratch.histogram);
    const Cut cut = find_cut(scratch.histogram, wanted, shared.sums, shared.counts, &shared.cut);
    reach.bin = cut.bin;
    reach.mass = massBefore + cut.massThrough;
    reach.isListable = countBefore + cut.countThrough <= CAPACITY - SPARE;
    const bool isEndless = reach.window.isFirst && cut.bin == BINS - 1 && range >= MAX_DISTANCE;
    if (reach.isListable || isEndless) return reach;
    countBefore += cut.countBefore;
    massBefore += cut.massBefore;
    wanted.count -= min(wanted.count, cut.countBefore);
    wanted.mass -= cut.massBefore;
    if (cut.countThrough - cut.countBefore <= CAPACITY - SPARE) {
      cut_in_bin(row, best, wanted, massBefore, reach, scratch.list, shared);
      return reach;
    }
    if (zoom + 1 == MAX_ZOOMS) {
      keep_bin(row, best, reach, shared);
      return reach;
    }
    const Window next = {reach.window.start + cut.bin / reach.window.perUnit, reach.window.perUnit * BINS, false};
    reach.window = next;
    __syncthreads();
  }
}
