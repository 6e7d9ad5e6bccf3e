// The pieces of a cache block, one for the keys and one for the values of each layer, from one place to another. Pieces lie
// `stride` bytes apart and are of a multiple of 16 bytes.
#include "elem.cuh"

extern "C" __global__ void copy_block(const u8* from, u8* to, i64 fromStride, i64 toStride, int pieceBytes) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
  // The kernels behind it start once it has ended: some read cached keys before they wait for anything.
  PDL_WAIT();
  if (at >= pieceBytes) return;
  const uint4 value = *reinterpret_cast<const uint4*>(from + blockIdx.y * fromStride + at);
  *reinterpret_cast<uint4*>(to + blockIdx.y * toStride + at) = value;
}
