// Chooses one token for each row of logits [numRows, vocab], one block a row: logits processors, then argmax, or a draw
// after top-k, top-p and min-p. The draw inverts the cumulative distribution at one uniform number per row; it does not
// use Gumbel noise. Results do not depend on thread order: sums run in a fixed order or in integers. Bound by the bytes
// of the logits.
// ELEM_BF16 or ELEM_F32 is the type of the logits. Source: top-k (Fan et al. 2018), nucleus sampling (Holtzman et al.
// 2019), min-p (Nguyen et al. 2024), inverse transform sampling (Devroye 1986), repetition penalty (Keskar et al.
// 2019).
#include "sample-reach.cuh"

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
    // Rounding left the target at the very end: take the last possible token.
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
    const elem_t* logits,   // [numRows, rowStride], rowStride a multiple of ELEM_VEC, elements after vocab are ignored
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
  PDL_TRIGGER();
  PDL_WAIT();
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
      bitonic_sort_descending(scratch.list.keys, size);
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
