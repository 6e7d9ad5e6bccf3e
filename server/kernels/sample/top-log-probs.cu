// The most likely tokens of rows of logits [numRows, vocab] and their log-probabilities, one block a row. Each thread keeps
// the best token of its part of the row; a round of the block takes the best of all, and only its thread looks through its
// part again. Bound by the bytes of the logits. Rows that ask for none cost nothing.
// ELEM_BF16 or ELEM_F32 is the type of the logits. Source: online softmax (Milakov and Gimelshein 2018); selection by
// repeated block-wide maximum (tournament sort, Knuth 1973, 5.2.3).
#include "sample-row.cuh"

#define MAX_TOP 20

// The best rank key below `limit` of the thread's part of the row, 0 when there is none; `see` takes each vector on the way.
template <class See>
__device__ __forceinline__ u64 best_below(const Row& row, u64 limit, See see) {
  u64 best = 0;
  each_vector(row, threadIdx.x, THREADS, row.numVectors, [&](int v, float(&values)[ELEM_VEC]) {
    keep_numbers(row, v * ELEM_VEC, values);
    see(values);
#pragma unroll
    for (int i = 0; i < ELEM_VEC; i++) {
      const u64 key = values[i] > MINUS_INFINITY ? rank_key(values[i], v * ELEM_VEC + i) : 0;
      if (key < limit && key > best) best = key;
    }
  });
  return best;
}

extern "C" __global__ void __launch_bounds__(THREADS) top_log_probs(
    const elem_t* logits, // [numRows, rowStride], rowStride a multiple of ELEM_VEC, elements after vocab are ignored
    const Params* params, // [numRows]
    int* ids,             // [numRows, MAX_TOP], best first, equal ones by id; -1 where the row has no more numbers
    float* logProbs,      // [numRows, MAX_TOP], under the model's own distribution
    int rowStride, int vocab) {
  __shared__ float floats[2][32];
  __shared__ u64 keys[2][32]; // by turns, so that one barrier a round is enough
  PDL_TRIGGER();
  PDL_WAIT();
  const int numTop = min(params[blockIdx.x].numTop, MAX_TOP);
  if (numTop == 0) return;
  Row row;
  row.logits = logits + (u64)blockIdx.x * rowStride;
  row.numVectors = CEIL_DIV(vocab, ELEM_VEC);
  row.vocab = vocab;
  RunningSum sum;
  u64 mine = best_below(row, ~0ull, [&](const float(&values)[ELEM_VEC]) { sum.add(values); });
  const RunningSum all = sum.join(floats[0], floats[1]);
  for (int place = 0; place < numTop; place++) {
    const u64 best = block_max_key(mine, keys[place & 1]);
    if (threadIdx.x == 0) {
      const float logit = from_ordered((u32)(best >> 32));
      const int at = blockIdx.x * MAX_TOP + place;
      ids[at] = best == 0 ? -1 : (int)~(u32)best;
      logProbs[at] = best == 0 ? MINUS_INFINITY : logit == PLUS_INFINITY ? 0.f : logit - all.largest - logf(all.sum);
    }
    if (best != 0 && mine == best) mine = best_below(row, best, [](const float(&)[ELEM_VEC]) {});
  }
}
