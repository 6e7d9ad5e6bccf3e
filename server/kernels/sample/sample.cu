// Chooses one token for each row of logits [numRows, vocab], one block a row: logits processors, then argmax, or a draw
// after top-k, top-p and min-p. The draw inverts the cumulative distribution at one uniform number per row; it does not
// use Gumbel noise. Results do not depend on thread order: sums run in a fixed order or in integers. Bound by the bytes
// of the logits.
// ELEM_BF16 or ELEM_F32 is the type of the logits. Source: top-k (Fan et al. 2018), nucleus sampling (Holtzman et al.
// 2019), min-p (Nguyen et al. 2024), inverse transform sampling (Devroye 1986), repetition penalty (Keskar et al.
// 2019).
#include "sample-reach.cuh"

// Weight of a score among those that are drawn from, 0 when it is not.
__device__ __forceinline__ float kept_weight(float score, int id, float best, u64 lastKey, float minP) {
  const float weight = __expf(score - best);
  return weight > 0.f && weight >= minP && rank_key(score, id) >= lastKey ? weight : 0.f;
}

// A draw among the tokens down to `lastKey`, in the order of ids. Each warp has a stretch of the row.
__device__ __noinline__ int draw_by_id(const Row& row, float best, u64 lastKey, float u, float* warpSums /* [32] */,
                          int* chosen) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float minP = row.params.minP;
  const int perWarp = CEIL_DIV(row.numVectors, WARPS), start = warp * perWarp;
  const int end = min(start + perWarp, row.numVectors);
  float sum = 0.f, scores[ELEM_VEC];
  each_vector(row, start + lane, WARP, end, [&](int v, float(&values)[ELEM_VEC]) {
    score_vector(row, v, values);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) sum += kept_weight(values[i], v * ELEM_VEC + i, best, lastKey, minP);
  });
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
        weights[i] = v < end ? kept_weight(scores[i], v * ELEM_VEC + i, best, lastKey, minP) : 0.f;
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

// A draw among the tokens within reach, in the order of falling scores.
__device__ __noinline__ int draw_in_order(const Row& row, float best, const Reach& reach, float u, float wholeMass, List& list,
                             ReachShared& shared, int* chosen) {
  const Params& asked = row.params;
  const bool limitsCount = asked.topK > 0 && asked.topK < row.vocab, limitsMass = asked.topP > 0.f && asked.topP < 1.f;
  const int numAll = list_bins(row, best, reach.window, 0, reach.bin, list, &shared.numListed);
  if (threadIdx.x < WARP) {
    const float* weights = list.weights;
    int count = limitsCount ? min(numAll, asked.topK) : numAll;
    if (limitsMass) {
      const float all = limitsCount ? warp_total(weights, count) : wholeMass;
      count = min(count, first_reaching(weights, count, asked.topP * all, false) + 1);
    }
    // Weights fall, so that those under min-p are at the end.
    while (count > 1 && weights[count - 1] < asked.minP) count--;
    int at = first_reaching(weights, count, u * warp_total(weights, count), true);
    if (at >= count) {
      at = count - 1;
      while (at > 0 && !(weights[at] > 0.f)) at--;
    }
    if (threadIdx.x == 0) *chosen = (int)~(u32)list.keys[at];
  }
  __syncthreads();
  return *chosen;
}

// A draw after top-k, top-p and min-p. `range` is the distance from the best score to the lowest.
__device__ __noinline__ int draw(const Row& row, float best, float range, float wholeMass, Scratch& scratch, ReachShared& shared,
                    int* chosen) {
  const Params& asked = row.params;
  const float u = uniform_at(asked.seedLow, asked.seedHigh, (u32)asked.index);
  const bool limitsCount = asked.topK > 0 && asked.topK < row.vocab, limitsMass = asked.topP > 0.f && asked.topP < 1.f;
  if (!limitsCount && !limitsMass) return draw_by_id(row, best, 0, u, shared.sums, chosen);
  const Wanted wanted = {limitsCount, (u32)asked.topK, asked.topP * wholeMass};
  Reach reach = find_reach(row, best, range, wanted, scratch, shared);
  __syncthreads();
  if (reach.isListable) return draw_in_order(row, best, reach, u, wholeMass, scratch.list, shared, chosen);
  if (limitsCount && limitsMass) {
    // The mass that top-p speaks of is that of the k best.
    const Wanted heavy = {false, 0, asked.topP * reach.mass};
    reach = find_reach(row, best, range, heavy, scratch, shared);
    __syncthreads();
    if (reach.isListable) reach.lastKey = listed_key(row, best, heavy, reach, scratch.list, shared);
  }
  return draw_by_id(row, best, reach.lastKey, u, shared.sums, chosen);
}

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
  __shared__ ReachShared reachShared;
  __shared__ float floats[5][32];
  __shared__ u64 keyScratch[32];
  __shared__ int chosenShared;
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
  row.hasRules = row.counts != nullptr || row.bias != nullptr || row.mask != nullptr || asked.numBanned > 0;

  // One reading for the best score, the weight of all, and the model's own distribution.
  RunningSum raw, mass;
  float bestScore = MINUS_INFINITY, worstScore = PLUS_INFINITY;
  int bestId = -1;
  each_vector(row, threadIdx.x, THREADS, row.numVectors, [&](int v, float(&values)[ELEM_VEC]) {
    keep_numbers(row, v * ELEM_VEC, values);
    raw.add(values);
    score_vector(row, v, values);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      if (values[i] > bestScore) {
        bestScore = values[i];
        bestId = v * ELEM_VEC + i;
      }
      if (values[i] > MINUS_INFINITY) worstScore = fminf(worstScore, values[i]);
    }
    if (!asked.isGreedy) mass.add(values);
  });
  const u64 bestKey = block_max_key(bestId < 0 ? 0 : rank_key(bestScore, bestId), keyScratch);
  const RunningSum rawAll = raw.join(floats[0], floats[1]);
  const float best = from_ordered((u32)(bestKey >> 32));
  int token = bestKey == 0 ? -1 : (int)~(u32)bestKey;

  if (!asked.isGreedy && token >= 0 && best < PLUS_INFINITY) {
    const RunningSum massAll = mass.join(floats[2], floats[3]);
    const float worst = -block_max(-worstScore, floats[4]);
    token = draw(row, best, best - worst, massAll.sum, scratch, reachShared, &chosenShared);
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
