// Finds the score distance from the best token within which top-k and top-p keep tokens. Histograms of distances, each
// finer than the previous one, hold counts and masses in integers, so that results do not depend on thread order. Bound
// by the bytes of the logits, once for each histogram.
// Source: top-k (Fan et al. 2018), nucleus sampling (Holtzman et al. 2019), radix selection (Alabi et al. 2012).
#pragma once
#include "sample-row.cuh"

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
