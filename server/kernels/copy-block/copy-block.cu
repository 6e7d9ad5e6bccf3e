// Copies the pieces of one KV cache block, a key piece and a value piece for each layer, between two places. Pieces lie
// `stride` bytes apart and are multiples of 16 bytes. Bound by bytes.
// Source: block copies and swaps of PagedAttention (Kwon et al. 2023).
#include "elem.cuh"

extern "C" __global__ void copy_block(const u8* from, u8* to, i64 fromStride, i64 toStride, int pieceBytes) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
  // The kernels behind it start once it has ended: some read cached keys before they wait for anything.
  PDL_WAIT();
  if (at >= pieceBytes) return;
  const uint4 value = *reinterpret_cast<const uint4*>(from + blockIdx.y * fromStride + at);
  *reinterpret_cast<uint4*>(to + blockIdx.y * toStride + at) = value;
}
