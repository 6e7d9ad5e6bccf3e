// Begins rows of the table of token counts that sample.cu reads: zeros, then the tokens that were seen so far. One block
// a row. Bound by the bytes of a row.
// Source: repetition penalty (Keskar et al. 2019); counts of presence and frequency penalties (OpenAI API reference,
// chat completions, presence_penalty).
#include "elem.cuh"

#define THREADS 1024

extern "C" __global__ void __launch_bounds__(THREADS) token_counts(
    u16* table,         // [.., vocab], vocab a multiple of 4
    const int* rows,    // [numRows, 3]: the row in the table, its first entry, and the end
    const int* entries, // [.., 2]: a token, and what its place gets
    int vocab) {
  const int* mine = rows + 3 * blockIdx.x;
  u16* row = table + (u64)mine[0] * vocab;
  uint2* words = reinterpret_cast<uint2*>(row);
  for (int i = threadIdx.x; i < vocab / 4; i += THREADS) words[i] = make_uint2(0, 0);
  __syncthreads();
  for (int i = mine[1] + threadIdx.x; i < mine[2]; i += THREADS) {
    const int token = entries[2 * i];
    if (token >= 0 && token < vocab) row[token] = (u16)entries[2 * i + 1];
  }
}
