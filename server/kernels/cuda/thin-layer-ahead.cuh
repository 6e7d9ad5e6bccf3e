// Weights on their way to shared memory: each warp copies its own STAGES ahead, unit after unit and past the end of a
// product into the next, so that memory goes on while blocks wait for each other.
#pragma once
#include "thin-layer-product.cuh"

struct WeightsAhead {
  const Layer& layer;
  u8* stages; // of this warp
  int end;    // of the products
  int warp, lane;
  // What is copied next, and the stage that is read next.
  int phase, unit, chunk, part = 0, numChunks = 0, stage = 0;
  // Where this thread copies from, how far it is to its next chunk, and from the gate to up.
  const u8* from = nullptr;
  u64 partStep = 0;
  u32 copyTo;
#if defined(WEIGHT_INT4)
  u32 scalesTo;
  const u32* scalesFrom = nullptr;
  u32 scalesStep = 0;
#else
  u64 fourRows = 0;
#endif

  __device__ __forceinline__ WeightsAhead(const Layer& of, u8* to, int first, int endOf)
      : layer(of), stages(to), end(endOf), warp(threadIdx.x >> 5), lane(threadIdx.x & 31), phase(first), unit(blockIdx.x) {
#if defined(WEIGHT_INT4)
    copyTo = shared_address(stages) + lane * 16;
    scalesTo = shared_address(stages) + SCALES_AT + lane * 4;
#else
    copyTo = shared_address(stages) + line_place(lane >> 3, lane & 7);
#endif
    turn_to_unit();
#pragma unroll
    for (int i = 0; i + 1 < STAGES; i++) copy(i);
  }

  // The tile that comes next; the stage before it is free for what comes.
  __device__ __forceinline__ const u8* next() {
    cp_async_wait<STAGES - 2>();
    __syncwarp();
    copy(stage == 0 ? STAGES - 1 : stage - 1);
    const u8* at = stages + stage * STAGE_BYTES;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    return at;
  }

  // To the unit that comes next, in this product or one behind it.
  __device__ __forceinline__ void turn_to_unit() {
    Product p = layer.product(phase);
    while (phase < end && (unit >= p.numUnits || warp >= p.numChunks)) {
      phase += 1;
      unit = blockIdx.x;
      p = layer.product(phase);
    }
    chunk = warp;
    numChunks = p.numChunks;
#if defined(WEIGHT_INT4)
    const int numBlocks = p.inputs / BLOCK, group = unit >> 2, numGroups = p.outputs / 64;
    const u64 block = (u64)group * numBlocks + warp * (CHUNK / BLOCK);
    from = p.weight + (block * 4 + (unit & 3)) * (WARP * 16) + lane * 16;
    partStep = (u64)(layer.inner / 64) * numBlocks * (4 * WARP * 16);
    // Outputs g and g + 8 of the tile, for each group of inputs.
    const int set = warp * (CHUNK / GROUP) + (lane >> 3 & 1);
    scalesFrom = reinterpret_cast<const u32*>(p.scales + ((u64)set * numGroups + group) * 8 + (lane & 7)) + (unit & 3);
    scalesStep = WARPS * (CHUNK / GROUP) * numGroups * 32;
#else
    const u64 rowBytes = (u64)p.inputs * 32 / RUN;
    from = p.weight + (u64)(unit * 16 + (lane >> 3)) * rowBytes + warp * LINE + (lane & 7) * 16;
    partStep = layer.inner * rowBytes;
    fourRows = 4 * rowBytes;
#endif
  }

  __device__ __forceinline__ void copy(int to) {
    if (phase < end) {
      const u32 at = copyTo + to * STAGE_BYTES;
      const u8* begin = part == 0 ? from : from + partStep;
#if defined(WEIGHT_INT4)
#pragma unroll
      for (int n = 0; n < CHUNK / BLOCK; n++) cp_async(at + n * (WARP * 16), begin + n * (4 * WARP * 16), true);
      if (lane < 16) cp_async_4(scalesTo + to * STAGE_BYTES, part == 0 ? scalesFrom : scalesFrom + (layer.inner / 64) * 32);
#else
#pragma unroll
      for (int i = 0; i < 4; i++) cp_async(at + 4 * i * LINE, begin + i * fourRows, true);
#endif
      turn_to_next();
    }
    cp_async_commit();
  }

  __device__ __forceinline__ void turn_to_next() {
    if (phase == GATE_UP && part == 0) {
      part = 1;
      return;
    }
    part = 0;
    chunk += WARPS;
#if defined(WEIGHT_INT4)
    from += WARPS * (CHUNK / BLOCK) * 4 * WARP * 16;
    scalesFrom += scalesStep;
#else
    from += WARPS * LINE;
#endif
    if (chunk < numChunks) return;
    unit += gridDim.x;
    turn_to_unit();
  }
};
