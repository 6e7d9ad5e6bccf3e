// Attention of any head size and element type over the paged KV cache, one query head a block, in f32. It serves
// exactness checks and shapes that the tensor-core kernels do not cover. Warps take keys in turn and merge at the end.
// Roofline: not tuned. A launch reads each visible key and value once for each query and head, for 4 FLOP an element,
// and is bound by instructions.
// Options: HEAD_DIM, BLOCK_SIZE, KV_E4M3, KV_F16, HAS_SINKS. Source: PagedAttention (Kwon et al. 2023), online softmax (Milakov
// and Gimelshein 2018).
#include "kv-element.cuh"

#define WARPS 4
#define PER_LANE CEIL_DIV(HEAD_DIM, WARP)
#define MINUS_INFINITY __uint_as_float(0xff800000u)

extern "C" __global__ void __launch_bounds__(WARPS * WARP) plain_attention(
    const elem_t* q,           // rows of qRowWidth, the queries first
    const kv_t* keys,          // [numBlocks, BLOCK_SIZE, numKvHeads, HEAD_DIM]
    const kv_t* values,        // likewise
    const int* queryStarts,    // [numSequences + 1]; null: one query a sequence
    const int* contextLengths, // [numSequences]; 0 for padding, whose output is zeros
    const int* blockTables,    // [numSequences, maxBlocks]
    elem_t* out,               // [numTokens, numHeads * HEAD_DIM]
    const float* sinks,        // [numHeads]
    int numHeads, int numKvHeads, int qRowWidth, int maxBlocks, int window, float scale, float softCap,
    float valueScale) {
  __shared__ float warpSums[WARPS][HEAD_DIM], warpLargest[WARPS], warpTotals[WARPS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int sequence = blockIdx.z, head = blockIdx.y, kvHead = head / (numHeads / numKvHeads);
  PDL_TRIGGER();
  PDL_WAIT();
  const int start = queryStarts == nullptr ? sequence : queryStarts[sequence];
  const int numQueries = queryStarts == nullptr ? 1 : queryStarts[sequence + 1] - start;
  if ((int)blockIdx.x >= numQueries) return;
  const int token = start + blockIdx.x;
  const int endKey = contextLengths[sequence] - numQueries + blockIdx.x + 1;
  const int firstKey = window > 0 ? max(0, endKey - window) : 0;
  elem_t* to = out + ((i64)token * numHeads + head) * HEAD_DIM;

  const elem_t* from = q + (i64)token * qRowWidth + head * HEAD_DIM;
  float query[PER_LANE], sums[PER_LANE];
#pragma unroll
  for (int n = 0; n < PER_LANE; n++) {
    const int i = lane + n * WARP;
    query[n] = i < HEAD_DIM ? elem_to_float(from[i]) : 0.f;
    sums[n] = 0.f;
  }
  float largest = MINUS_INFINITY, total = 0.f;
  for (int key = firstKey + warp; key < endKey; key += WARPS) {
    const int block = blockTables[(i64)sequence * maxBlocks + key / BLOCK_SIZE];
    const u64 row = (((u64)block * BLOCK_SIZE + key % BLOCK_SIZE) * numKvHeads + kvHead) * HEAD_DIM;
    float dot = 0.f;
#pragma unroll
    for (int n = 0; n < PER_LANE; n++) {
      const int i = lane + n * WARP;
      if (i < HEAD_DIM) dot += query[n] * kv_to_float(keys[row + i]);
    }
    float score = warp_sum(dot) * scale;
    if (softCap > 0.f) score = softCap * tanhf(score / softCap);
    const float best = fmaxf(largest, score);
    const float factor = expf(largest - best), weight = expf(score - best);
    largest = best;
    total = total * factor + weight;
#pragma unroll
    for (int n = 0; n < PER_LANE; n++) {
      const int i = lane + n * WARP;
      if (i < HEAD_DIM) sums[n] = sums[n] * factor + weight * kv_to_float(values[row + i]);
    }
  }
#pragma unroll
  for (int n = 0; n < PER_LANE; n++)
    if (lane + n * WARP < HEAD_DIM) warpSums[warp][lane + n * WARP] = sums[n];
  if (lane == 0) {
    warpLargest[warp] = largest;
    warpTotals[warp] = total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < HEAD_DIM; i += WARPS * WARP) {
    float best = MINUS_INFINITY, sum = 0.f, all = 0.f;
    for (int w = 0; w < WARPS; w++) best = fmaxf(best, warpLargest[w]);
    for (int w = 0; w < WARPS; w++) {
      const float factor = warpTotals[w] > 0.f ? expf(warpLargest[w] - best) : 0.f;
      sum += factor * warpSums[w][i];
      all += factor * warpTotals[w];
    }
    if constexpr (IS_SET(HAS_SINKS))
      if (all > 0.f) all += expf(sinks[head] - best);
    to[i] = float_to_elem(all > 0.f ? sum / all * valueScale : 0.f);
  }
}
